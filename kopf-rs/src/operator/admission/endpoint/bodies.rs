//! Limits the bodies of requests and answers: the size of each, their total size, and the time to receive or send one.
//!
//! Guarantees that a client that sends only the beginning of a body, or does not read its answer, does not keep others from being served.
//! Must not know the contents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::conversion::graph::PATH;

/// The largest body: an object, its former state, and the options.
const LARGEST: usize = 7 * 1024 * 1024;
/// The total size of all received bodies until they are unused and their answers are sent. Parsed as objects, they take several times this
/// size.
pub(super) const ALL_BODIES: usize = 64 * 1024 * 1024;
/// The time limit for the body of a request. API servers give up after 30 seconds at the latest, and send a body at once.
const BODY: Duration = Duration::from_secs(10);
/// A body that takes longer than this to receive or send gives way to others if there is no room left.
const SLOW: Duration = Duration::from_secs(1);

/// The time within which such a body is dropped.
const LEAVING: Duration = Duration::from_millis(100);

/// Why a body is not read: the status of the answer, and its message.
pub(super) type Refused = (StatusCode, String);

/// The room for all bodies: one half for conversions, one for reviews. A conversion function that never returns holds its part for ever, and
/// reviews must not wait for that.
pub(super) struct Rooms {
    conversions: Room,
    reviews: Room,
}

/// The room for some bodies.
pub(super) struct Room {
    /// In bytes.
    free: Arc<Semaphore>,
    moving: Arc<Mutex<Moving>>,
}

/// A part of the room, until its last clone is dropped.
pub(super) type Share = Arc<OwnedSemaphorePermit>;

/// The bodies that are being received, and the answers that are being sent.
#[derive(Default)]
struct Moving {
    next: u64,
    all: BTreeMap<u64, (Instant, CancellationToken)>,
}

/// One of them, until this is dropped.
struct Move {
    of: Arc<Mutex<Moving>>,
    number: u64,
}

/// Bytes, with a value that lives as long as they do.
struct Holding<B, K> {
    bytes: B,
    _kept: K,
}

impl Rooms {
    pub(super) fn new(bytes: usize) -> Self {
        Self { conversions: Room::new(bytes / 2), reviews: Room::new(bytes / 2) }
    }

    /// Returns the room for requests at this path.
    pub(super) fn of(&self, path: &str) -> &Room {
        if path.starts_with(PATH) { &self.conversions } else { &self.reviews }
    }
}

impl Room {
    fn new(bytes: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(bytes)), moving: Arc::default() }
    }

    /// Reads a whole body. Returns it with its share of the room, which the body itself holds as well.
    pub(super) async fn whole<B>(&self, headers: &HeaderMap, body: B) -> Result<(Bytes, Share), Refused>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let length = headers.get(CONTENT_LENGTH).and_then(|it| it.to_str().ok());
        if length.and_then(|it| it.parse().ok()) > Some(LARGEST) {
            return Err(too_large());
        }
        let turned_out = CancellationToken::new();
        let _coming = self.begin(turned_out.clone());
        let read = timeout(BODY, self.pieces(Limited::new(body, LARGEST)));
        tokio::select! {
            read = read => read.unwrap_or_else(|_| {
                let message = "the body does not come".to_owned();
                Err((StatusCode::REQUEST_TIMEOUT, message))
            }),
            () = turned_out.cancelled() => Err(busy()),
        }
    }

    /// Returns an answer that keeps these values, such as the share of its request, until it is sent. If that takes long and others need the
    /// room, `turned_out` is cancelled.
    pub(super) fn answer<K>(&self, bytes: Vec<u8>, kept: K, turned_out: CancellationToken) -> Bytes
    where
        K: Send + 'static,
    {
        Bytes::from_owner(Holding { bytes, _kept: (kept, self.begin(turned_out)) })
    }

    /// Reads a body in pieces. Only received bytes take room, not announced ones, so a client that sends nothing excludes no other.
    async fn pieces<B>(&self, body: Limited<B>) -> Result<(Bytes, Share), Refused>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let mut share = self.take(0).await?;
        let mut body = std::pin::pin!(body);
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => {
                    let Ok(piece) = frame.into_data() else {
                        continue;
                    };
                    share.merge(self.take(piece.len()).await?);
                    whole.extend_from_slice(&piece);
                }
                Err(error) if error.is::<LengthLimitError>() => return Err(too_large()),
                Err(error) => return Err((StatusCode::BAD_REQUEST, error.to_string())),
            }
        }
        let share = Arc::new(share);
        let held = Holding { bytes: whole, _kept: share.clone() };
        Ok((Bytes::from_owner(held), share))
    }

    /// Reserves room for this many bytes, if necessary that of a stalled body.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Refused> {
        let bytes = u32::try_from(bytes).map_err(|_| too_large())?;
        loop {
            if let Ok(taken) = self.free.clone().try_acquire_many_owned(bytes) {
                return Ok(taken);
            }
            if !self.turn_out_the_slowest() {
                return Err(busy());
            }
            // The stalled body releases its room in a moment. If that is too little, the next one follows.
            let left = self.free.clone().acquire_many_owned(bytes);
            if let Ok(taken) = timeout(LEAVING, left).await {
                return taken.map_err(|_| busy());
            }
        }
    }

    fn begin(&self, turned_out: CancellationToken) -> Move {
        let mut moving = self.moving.lock();
        moving.next += 1;
        let number = moving.next;
        moving.all.insert(number, (Instant::now(), turned_out));
        let of = self.moving.clone();
        Move { of, number }
    }

    /// Cancels the transfer that has taken longest, if that is too long. Returns whether there was one.
    fn turn_out_the_slowest(&self) -> bool {
        let mut moving = self.moving.lock();
        let is_slow = |begun: &Instant| begun.elapsed() >= SLOW;
        let slowest = moving.all.first_entry();
        let slowest = slowest.filter(|entry| is_slow(&entry.get().0));
        let Some(entry) = slowest else {
            return false;
        };
        entry.remove().1.cancel();
        true
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        let mut moving = self.of.lock();
        moving.all.remove(&self.number);
    }
}

impl<B: AsRef<[u8]>, K> AsRef<[u8]> for Holding<B, K> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

fn busy() -> Refused {
    let message = "too many requests are being answered: ask again in a second";
    (StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
}

fn too_large() -> Refused {
    let message = format!("the body is larger than {LARGEST} bytes");
    (StatusCode::PAYLOAD_TOO_LARGE, message)
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    use super::*;

    async fn read(room: &Room, text: &'static str) -> Result<(Bytes, Share), Refused> {
        room.whole(&HeaderMap::new(), Full::from(text)).await
    }

    #[tokio::test(start_paused = true)]
    async fn all_bodies_together_have_a_bound() {
        let room = Room::new(10);
        let (body, share) = read(&room, "12345678").await.unwrap();
        assert_eq!(body, "12345678");
        assert_eq!(read(&room, "12").await.unwrap().0, "12");
        let (status, message) = read(&room, "123").await.unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{message}");
        // The body itself still needs the room.
        drop(share);
        assert!(read(&room, "123").await.is_err());
        drop(body);
        assert_eq!(read(&room, "123").await.unwrap().0, "123");
        assert_eq!(room.free.available_permits(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn conversions_and_reviews_do_not_take_the_room_of_each_other() {
        let rooms = Rooms::new(20);
        let (conversions, reviews) = ("/convert/things.example.com", "/validate/check");
        for (full, other) in [(conversions, reviews), (reviews, conversions)] {
            // Held for ever, as by a function that does not return.
            let held = read(rooms.of(full), "12345678").await.unwrap();
            let (status, _) = read(rooms.of(full), "123").await.unwrap_err();
            assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(read(rooms.of(other), "12345678").await.unwrap().0, "12345678");
            drop(held);
        }
    }

    /// Returns a body that stalls after its beginning.
    fn stalled(begin: &'static str) -> impl Body<Data = Bytes, Error = std::io::Error> {
        use futures_util::StreamExt as _;
        let begin = Ok(Frame::data(Bytes::from(begin)));
        let frames = futures_util::stream::iter([begin]);
        StreamBody::new(frames.chain(futures_util::stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_stall_give_way_to_others() {
        let room = Arc::new(Room::new(10));
        let stalling = [(); 2].map(|()| {
            let room = room.clone();
            tokio::spawn(async move { room.whole(&HeaderMap::new(), stalled("12345")).await })
        });
        tokio::task::yield_now().await;
        // The bodies may still arrive.
        let refused = read(&room, "123").await.unwrap_err();
        assert_eq!(refused.0, StatusCode::SERVICE_UNAVAILABLE);
        tokio::time::sleep(SLOW).await;
        let begun = Instant::now();
        assert_eq!(read(&room, "12345678").await.unwrap().0, "12345678");
        assert!(begun.elapsed() < SLOW, "{:?}", begun.elapsed());
        for stalled in stalling {
            let refused = stalled.await.unwrap().unwrap_err();
            assert_eq!(refused.0, StatusCode::SERVICE_UNAVAILABLE);
        }
        assert_eq!(room.free.available_permits(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_nobody_reads_give_way_to_others() {
        let room = Room::new(10);
        let (body, share) = read(&room, "12345678").await.unwrap();
        drop(body);
        let turned_out = CancellationToken::new();
        let answer = room.answer(b"answer".to_vec(), share, turned_out.clone());
        assert_eq!(answer, "answer");
        assert!(read(&room, "123").await.is_err());
        assert!(!turned_out.is_cancelled());
        tokio::time::sleep(SLOW).await;
        let connection = tokio::spawn(async move {
            turned_out.cancelled().await;
            drop(answer);
        });
        assert_eq!(read(&room, "123").await.unwrap().0, "123");
        connection.await.unwrap();
        assert_eq!(room.free.available_permits(), 10);
        assert!(room.moving.lock().all.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_has_a_bound_of_time() {
        let room = Room::new(10);
        let begun = Instant::now();
        let refused = room.whole(&HeaderMap::new(), stalled("1")).await;
        assert_eq!(refused.unwrap_err().0, StatusCode::REQUEST_TIMEOUT);
        assert_eq!(begun.elapsed(), BODY);
    }
}
