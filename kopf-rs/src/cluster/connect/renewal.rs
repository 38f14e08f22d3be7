//! A connection whose credentials may be replaced where they are from: they are read again where the server refuses them with 401, and where its
//! certificate is not one of the authorities that are known.
//!
//! Promises that one reading serves all requests that were refused with the same credentials, that there is one in ten seconds at most, and
//! that a request is sent again only with other credentials. Must not know what is read.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::BoxError;

use crate::cluster::fence::copy_of;
use crate::cluster::stack::is_distrust;

/// Between two readings.
pub(super) const PAUSE: Duration = Duration::from_secs(10);

/// A client of the credentials as they are now, where these are other ones than those of that digest.
pub(super) type Read = dyn Fn(String) -> BoxFuture<'static, Option<Credentials>> + Send + Sync;

/// Credentials in use.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) client: Client,
    /// Tells them from others; as secret as they are.
    pub(super) digest: String,
}

/// What all requests share.
pub(super) struct Renewal {
    read: Box<Read>,
    /// With a number, which tells a request that it was refused with former ones.
    current: Mutex<(u64, Credentials)>,
    /// When they were read last.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

impl Renewal {
    pub(super) fn new(first: Credentials, read: Box<Read>) -> Self {
        Self {
            read,
            current: Mutex::new((0, first)),
            turn: tokio::sync::Mutex::new(None),
        }
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let (number, Credentials { client, .. }) = self.current();
        let Some(copy) = copy_of(&parts, &body).await else {
            // What is streamed cannot be sent twice.
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

    /// A client of other credentials than those of that number, where there are any.
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
        *self.lock() = (number + 1, renewed);
        Some(client)
    }

    fn current(&self) -> (u64, Credentials) {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (u64, Credentials)> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
