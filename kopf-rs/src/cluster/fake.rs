//! A scripted API server for tests: literal bytes, no sockets, virtual time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, StreamBody};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use tower::service_fn;

use crate::cluster::{Client, Cluster};

/// A request that the fake has received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The time since the fake was made.
    pub(crate) at: Duration,
    /// The method and the target.
    pub(crate) line: String,
    pub(crate) body: String,
    pub(crate) headers: http::HeaderMap,
}

/// A piece of a response's body.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Bytes(Vec<u8>),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// The stream stays open without further data.
    Hang,
}

/// A response, or none.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    code: u16,
    headers: Vec<(&'static str, String)>,
    parts: Vec<Part>,
}

/// The server: gives the responses in the order in which they were added, then hangs.
#[derive(Clone)]
pub(crate) struct Fake {
    seen: Arc<Mutex<Vec<Seen>>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    start: Instant,
}

impl Answer {
    pub(crate) fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, headers: Vec::new(), parts: vec![Part::Text(text.into())] }
    }
    /// Responds with 200 and these parts.
    pub(crate) fn parts(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { code: 200, headers: Vec::new(), parts: parts.into_iter().collect() }
    }
    /// Responds with 200 and these lines, then stays silent.
    pub(crate) fn live(lines: &str) -> Self {
        Self::parts([Part::Text(lines.to_owned()), Part::Hang])
    }
    /// Never sends even a status line.
    pub(crate) fn stuck() -> Self {
        Self::new(1, "")
    }
    /// Refuses the connection.
    pub(crate) fn none() -> Self {
        Self::new(0, "")
    }
    /// Refuses the request with a `Status`.
    pub(crate) fn refusal(code: u16, message: &str) -> Self {
        let status = serde_json::json!({"kind": "Status", "code": code, "message": message});
        Self::new(code, status.to_string())
    }
    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

impl Fake {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            seen: Arc::default(),
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            start: Instant::now(),
        }
    }

    pub(crate) fn cluster(&self) -> Cluster {
        Cluster::new(self.client())
    }

    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let fake = fake.clone();
            async move { fake.answer(request).await }
        });
        Client::new(service, "default")
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// Returns the method and target of every request.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    async fn answer(
        &self,
        request: Request<Body>,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = std::io::Error> + use<>>, std::io::Error>
    {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        self.seen.lock().push(Seen {
            at: self.start.elapsed(),
            line: format!("{} {}", head.method, head.uri),
            body: String::from_utf8(body.to_vec()).unwrap(),
            headers: head.headers,
        });
        let answer = self.answers.lock().pop_front();
        let answer = answer.unwrap_or_else(|| Answer::live(""));
        match answer.code {
            0 => return Err(std::io::ErrorKind::ConnectionRefused.into()),
            1 => std::future::pending().await,
            _ => {}
        }
        let mut response = Response::builder().status(answer.code);
        for (name, value) in answer.headers {
            response = response.header(name, value);
        }
        let frames = stream::unfold(answer.parts.into_iter(), |mut parts| async move {
            loop {
                match parts.next()? {
                    Part::Text(text) => {
                        let frame = http_body::Frame::data(Bytes::from(text));
                        return Some((Ok(frame), parts));
                    }
                    Part::Bytes(bytes) => {
                        let frame = http_body::Frame::data(Bytes::from(bytes));
                        return Some((Ok(frame), parts));
                    }
                    Part::Wait(pause) => sleep(pause).await,
                    Part::Break => {
                        let error = std::io::ErrorKind::ConnectionReset.into();
                        return Some((Err(error), Vec::new().into_iter()));
                    }
                    Part::Hang => std::future::pending().await,
                }
            }
        });
        Ok(response.body(StreamBody::new(frames)).unwrap())
    }
}
