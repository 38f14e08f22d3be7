//! A connection with renewable credentials: they are read again from their source when the server refuses them with 401, or when no known
//! authority verifies the server's certificate.
//!
//! This module guarantees that one read serves all requests that were refused with the same credentials, that reads
//! are at least ten seconds apart, and that a request is resent only with different credentials. It must not depend
//! on the source of the credentials.

use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::Instant;
use tower::BoxError;

use crate::cluster::cause::is_distrust;
use crate::cluster::fence::copy_of;

/// The minimum time between two reads.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// Reads the current credentials, and returns them with a client if they differ from those with the given digest.
pub(super) type Read = dyn Fn(String) -> BoxFuture<'static, Option<Credentials>> + Send + Sync;

/// Credentials in use.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) client: Client,
    /// Identifies the credentials. It is as secret as they are.
    pub(super) digest: String,
}

/// The credentials that all requests use.
pub(super) struct Renewal {
    read: Box<Read>,
    /// The credentials with a number, by which a request detects that they were replaced meanwhile.
    current: Mutex<(u64, Credentials)>,
    /// The time of the last read.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

impl Renewal {
    pub(super) fn new(first: Credentials, read: Box<Read>) -> Self {
        Self { read, current: Mutex::new((0, first)), turn: tokio::sync::Mutex::new(None) }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let (number, Credentials { client, .. }) = self.current();
        let Some(copy) = copy_of(&parts, &body).await else {
            // A streamed body cannot be sent twice.
            return Ok(client.send(Request::from_parts(parts, body)).await?);
        };
        let first = Request::from_parts(parts.clone(), copy);
        let answer = client.send(first).await;
        let is_outdated = match &answer {
            Ok(answer) => answer.status() == StatusCode::UNAUTHORIZED,
            Err(error) => is_distrust(error),
        };
        if is_outdated && let Some(client) = self.renewed(number).await {
            return Ok(client.send(Request::from_parts(parts, body)).await?);
        }
        Ok(answer?)
    }

    /// Returns a client with other credentials than those of that number, if there are any.
    async fn renewed(&self, number: u64) -> Option<Client> {
        let mut turn = self.turn.lock().await;
        let (newest, current) = self.current();
        if newest != number {
            return Some(current.client);
        }
        if turn.is_some_and(|last| last.elapsed() < PAUSE) {
            return None;
        }
        let renewed = (self.read)(current.digest).await;
        *turn = Some(Instant::now());
        let renewed = renewed?;
        let client = renewed.client.clone();
        *self.current.lock() = (number + 1, renewed);
        Some(client)
    }

    fn current(&self) -> (u64, Credentials) {
        self.current.lock().clone()
    }
}
