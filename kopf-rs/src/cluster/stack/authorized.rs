//! Credentials that change while the client is in use: a token in a file, or those of a plugin.
//!
//! This module guarantees that a file is read again every minute, and that its last valid token is used while it
//! cannot be read. It must not depend on the server.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderValue, Request};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};

use crate::cluster::access::Authorization;
use crate::cluster::access::header::bearer;
use crate::cluster::access::plugin::Plugin;

/// The interval between two reads of a file, as in Go's clients.
const PERIOD: Duration = Duration::from_secs(60);

/// Adds the `Authorization` header.
#[derive(Clone)]
pub(super) struct Authorizing {
    source: Arc<Source>,
    home: Handle,
}

enum Source {
    File { path: PathBuf, last: Mutex<(HeaderValue, Instant)> },
    Plugin(Arc<Plugin>),
}

impl Authorizing {
    /// Returns `None` if the header never changes or there is none.
    pub(super) fn of(authorization: &Authorization) -> Option<Self> {
        let source = match authorization {
            Authorization::None | Authorization::Fixed(_) => return None,
            Authorization::File { path, first } => {
                Source::File { path: path.clone(), last: Mutex::new((first.clone(), Instant::now())) }
            }
            Authorization::Plugin(plugin) => Source::Plugin(plugin.clone()),
        };
        Some(Self { source: Arc::new(source), home: Handle::current() })
    }

    async fn header(&self) -> Result<Option<HeaderValue>, String> {
        match &*self.source {
            Source::Plugin(plugin) => plugin.token(&self.home).await,
            Source::File { path, last } => {
                let mut last = last.lock();
                if last.1.elapsed() >= PERIOD {
                    last.1 = Instant::now();
                    let text = std::fs::read_to_string(path);
                    let token = text.ok().filter(|text| !text.trim().is_empty());
                    if let Some(Ok(header)) = token.map(|text| bearer(text.trim())) {
                        last.0 = header;
                    }
                }
                Ok(Some(last.0.clone()))
            }
        }
    }
}

impl<S> Layer<S> for Authorizing {
    type Service = Authorized<S>;

    fn layer(&self, inner: S) -> Authorized<S> {
        Authorized { inner, authorizing: self.clone() }
    }
}

/// A service whose requests carry the header.
#[derive(Clone)]
pub(super) struct Authorized<S> {
    inner: S,
    authorizing: Authorizing,
}

impl<S, B> Service<Request<B>> for Authorized<S>
where
    S: Service<Request<B>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    S::Response: 'static,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // Uses the service that was polled ready, and leaves its clone behind.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let authorizing = self.authorizing.clone();
        Box::pin(async move {
            if let Some(header) = authorizing.header().await? {
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            inner.call(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_read_again_every_minute_and_its_last_token_stays() {
        let path = std::env::temp_dir().join(format!("kopf-rs-token-{}", std::process::id()));
        let first = bearer("first").unwrap();
        let file = Authorization::File { path: path.clone(), first };
        let authorizing = Authorizing::of(&file).unwrap();
        let shown = async || {
            let header = authorizing.header().await.unwrap().unwrap();
            String::from_utf8(header.as_bytes().to_vec()).unwrap()
        };
        std::fs::write(&path, "second\n").unwrap();
        assert_eq!(shown().await, "Bearer first");
        tokio::time::advance(PERIOD).await;
        assert_eq!(shown().await, "Bearer second");
        for text in ["", "a\nb"] {
            std::fs::write(&path, text).unwrap();
            tokio::time::advance(PERIOD).await;
            assert_eq!(shown().await, "Bearer second");
        }
        std::fs::remove_file(&path).unwrap();
        tokio::time::advance(PERIOD).await;
        assert_eq!(shown().await, "Bearer second");
    }
}
