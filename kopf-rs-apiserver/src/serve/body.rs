//! Response bodies: bytes that are there, or a watch that is under way.
//!
//! Promise: a watch does nothing while nobody reads it. Must not know requests beyond matching faults.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

use crate::call::Call;
use crate::fault::{Faults, StreamAction};
use crate::status::Refusal;
use crate::verb::watch::{Watch, error_line};

/// The connection broke while a watch was read, as a fault demanded.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection reset by the server")]
pub struct Reset;

type Lines = Pin<Box<dyn Stream<Item = Result<Bytes, Reset>> + Send>>;

/// The body of an answer.
pub struct ApiBody {
    inner: Inner,
}

enum Inner {
    Full(Option<Bytes>),
    Watch(Lines),
}

// === impl ApiBody ===

impl ApiBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        Self {
            inner: Inner::Full(bytes),
        }
    }

    pub(crate) fn watch(watch: WatchBody) -> Self {
        let lines = futures_util::stream::unfold(watch, |mut watch| async move {
            let line = watch.next().await?;
            Some((line, watch))
        });
        Self {
            inner: Inner::Watch(Box::pin(lines)),
        }
    }
}

impl std::fmt::Debug for ApiBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.inner {
            Inner::Full(_) => "ApiBody::Full",
            Inner::Watch(_) => "ApiBody::Watch",
        })
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Reset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reset>>> {
        match &mut self.inner {
            Inner::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Inner::Watch(lines) => lines
                .as_mut()
                .poll_next(context)
                .map(|line| line.map(|line| line.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.inner, Inner::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Full(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64))
            }
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}

/// A watch with the faults that befall it.
pub(crate) struct WatchBody {
    watch: Watch,
    call: Arc<Call>,
    faults: Faults,
    changed: watch::Receiver<()>,
    seen: u64,
    armed: Option<(u64, StreamAction)>,
    events: usize,
    closing: Option<watch::Receiver<bool>>,
    over: bool,
}

// === impl WatchBody ===

impl WatchBody {
    pub(crate) fn new(
        watch: Watch,
        faults: Faults,
        call: Arc<Call>,
        closing: Option<watch::Receiver<bool>>,
    ) -> Self {
        Self {
            watch,
            call,
            changed: faults.subscribe(),
            faults,
            seen: 0,
            armed: None,
            events: 0,
            closing,
            over: false,
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, Reset>> {
        while !self.over {
            self.changed.mark_unchanged();
            if self.armed.is_none() {
                self.armed = self.faults.of_stream(&self.call, &mut self.seen);
            }
            match self.armed {
                Some((_, StreamAction::CutAfter(events))) if self.events >= events => return None,
                Some((_, StreamAction::Reset)) => {
                    self.over = true;
                    return Some(Err(Reset));
                }
                Some((_, StreamAction::Gone)) => {
                    self.over = true;
                    return Some(Ok(error_line(&Refusal::of_code(410))));
                }
                Some((id, StreamAction::Stall)) => {
                    if self.faults.is_armed(id) {
                        self.wait_for_change().await;
                    } else {
                        self.armed = None;
                    }
                    continue;
                }
                _ => {}
            }
            tokio::select! {
                biased;
                () = is_closed(self.closing.as_mut()) => return None,
                Ok(()) = self.changed.changed() => {}
                line = self.watch.next() => {
                    let line = line?;
                    self.events += usize::from(line.event);
                    return Some(Ok(line.text));
                }
            }
        }
        None
    }

    async fn wait_for_change(&mut self) {
        tokio::select! {
            () = is_closed(self.closing.as_mut()) => self.over = true,
            _ = self.changed.changed() => {}
        }
    }
}

/// Resolves when the server closes; never if nothing tells.
pub(super) async fn is_closed(closing: Option<&mut watch::Receiver<bool>>) {
    match closing {
        Some(closing) => {
            // An error means that whoever could close is gone: closed.
            let _closed = closing.wait_for(|closed| *closed).await.is_ok();
        }
        None => std::future::pending().await,
    }
}
