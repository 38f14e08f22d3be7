//! One watch stream, from the request to its end, including the initial list if a listing is due.

use std::ops::ControlFlow;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout};

use crate::cluster::error::{ClusterError, Status};
use crate::cluster::watch::line::{Line, Lines};
use crate::cluster::watch::{CALM, End, PATIENCE, WatchEvent, Watcher};
use crate::object::event::EventType;

/// The time limit for the response headers. The server sends them immediately, long before the first event.
const ANSWER: Duration = Duration::from_secs(30);
/// An accepted stream counts as recovered after this long, even without events.
const RECOVERED: Duration = Duration::from_secs(1);
/// The time limit for silence within a listing. After it, the server or a proxy has probably ignored the request for the list.
const LISTING: Duration = Duration::from_secs(20);

impl Watcher<'_> {
    /// Watches from the known version on. Without one, lists by streaming and then continues to watch.
    pub(super) async fn stream(&mut self) -> End {
        let listing = self.version.is_none();
        let asked = Instant::now();
        let call = self.watch_call();
        let body = match timeout(ANSWER, self.cluster.open(&call, None)).await {
            Ok(Ok(response)) => response.into_body(),
            Ok(Err(error)) => return refused(error, listing),
            Err(_) => {
                let seconds = ANSWER.as_secs();
                return End::Failed(ClusterError::Unreachable(format!(
                    "no answer to a watch within {seconds} seconds"
                )));
            }
        };
        let accepted = Instant::now();
        if listing {
            self.begin_listing(asked);
        }
        let longest = self.watched.pace.client_timeout.unwrap_or(Duration::MAX);
        let end = timeout(longest, self.read(body)).await;
        let end = end.unwrap_or(End::Over);
        if listing && self.version.is_none() {
            self.unfinished += 1;
        } else if accepted.elapsed() >= CALM {
            self.calm();
        }
        end
    }

    async fn read(&mut self, mut body: Body) -> End {
        let mut lines = Lines::default();
        let mut heard = Instant::now();
        // The timer is reset only when it fires, so that a line costs no timer operation.
        let mut deadline = std::pin::pin!(sleep_until(heard + RECOVERED));
        loop {
            tokio::select! {
                biased;
                frame = body.frame() => {
                    let Some(Ok(frame)) = frame else {
                        return self.last_line(&lines);
                    };
                    if let Some(chunk) = frame.data_ref()
                        && let ControlFlow::Break(end) = lines.feed(chunk, |line| self.line(line))
                    {
                        return end;
                    }
                    if self.version.is_none() {
                        self.wait_for_room().await;
                    }
                    heard = Instant::now();
                }
                () = deadline.as_mut() => {
                    let mut patience = self.watched.pace.inactivity;
                    if self.version.is_some() {
                        self.recover();
                    } else {
                        patience = patience.min(LISTING);
                    }
                    let silence = heard + patience;
                    if silence <= Instant::now() {
                        return End::Silent;
                    }
                    deadline.as_mut().reset(silence);
                }
            }
        }
    }

    /// Handles the end of the stream. The rest is an incomplete line if the stream was cut, or a complete one if the server omits the last
    /// line feed.
    fn last_line(&mut self, lines: &Lines) -> End {
        if Line::read(lines.unfinished(), self.watched.parse()).is_ok()
            && let ControlFlow::Break(end) = self.line(lines.unfinished())
        {
            return end;
        }
        End::Over
    }

    fn line(&mut self, line: &[u8]) -> ControlFlow<End> {
        let line = match Line::read(line, self.watched.parse()) {
            Ok(Some(line)) => line,
            Ok(None) => return ControlFlow::Continue(()),
            Err(words) => return ControlFlow::Break(End::Garbled(words)),
        };
        if let Line::Error(status) = line {
            return ControlFlow::Break(self.error_event(status));
        }
        match line {
            Line::Object(EventType::Added, raw) if self.version.is_none() => {
                (self.sink)(WatchEvent::Object(EventType::Listed, raw));
            }
            Line::Object(event, raw) => {
                if self.version.is_some() {
                    self.recover();
                    self.advance(&raw.facts().resource_version);
                }
                (self.sink)(WatchEvent::Object(event, raw));
            }
            Line::Bookmark { version, initial_events_end } => self.bookmark(&version, initial_events_end),
            Line::Unknown(kind) => {
                tracing::warn!("Ignoring an unsupported event type: {kind} ({})", self.watched.collection);
            }
            Line::Error(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn bookmark(&mut self, version: &str, initial_events_end: bool) {
        if self.version.is_some() {
            self.advance(version);
            self.recover();
            (self.sink)(WatchEvent::Bookmark);
        } else if initial_events_end {
            self.unfinished = 0;
            self.end_listing(version.to_owned());
            self.recover();
        }
    }

    /// Handles an error event. 410 demands a new listing; so does any other error that persists while the watch resumes from the same
    /// version.
    fn error_event(&mut self, status: Status) -> End {
        match status.into_error(&self.asked(), None) {
            ClusterError::Gone(message) => End::Expired(message),
            error => {
                self.errors += 1;
                if self.errors >= PATIENCE {
                    self.errors = 0;
                    self.version = None;
                }
                End::Failed(error)
            }
        }
    }
}

fn refused(error: ClusterError, listing: bool) -> End {
    match error {
        ClusterError::Gone(message) => End::Expired(message),
        ClusterError::Invalid(message) if listing => End::NoStreaming(message),
        error => End::Failed(error),
    }
}
