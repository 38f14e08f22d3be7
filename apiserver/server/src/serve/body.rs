//! Response bodies: complete bytes, or an open watch.
//!
//! Guarantees that a watch does no work while it is not read. Must not depend on requests, except to match faults.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::call::Call;
use crate::fault::{Faults, StreamAction};
use crate::status::Refusal;
use crate::verb::watch::{Line, Watch, error_line};

/// The connection broke during a watch because of an injected fault.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("connection reset by the server")]
pub struct Reset;

type Lines = Pin<Box<dyn Stream<Item = Result<Bytes, Reset>> + Send>>;

/// The body of a response.
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

    /// Returns whether this is an open watch.
    pub(super) fn is_watch(&self) -> bool {
        matches!(self.inner, Inner::Watch(_))
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

/// A watch with its injected faults.
pub(crate) struct WatchBody {
    watch: Watch,
    call: Arc<Call>,
    faults: Faults,
    changed: watch::Receiver<()>,
    seen: u64,
    armed: Vec<(u64, StreamAction)>,
    events: usize,
    /// The delayed lines, with the times until which they are held back.
    late: VecDeque<(Instant, Line)>,
    /// A line to send a second time.
    again: Option<Bytes>,
    closing: Option<watch::Receiver<bool>>,
    /// The watch has ended and yields no more lines.
    drained: bool,
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
            armed: Vec::new(),
            events: 0,
            late: VecDeque::new(),
            again: None,
            closing,
            drained: false,
            over: false,
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, Reset>> {
        while !self.over {
            self.changed.mark_unchanged();
            self.take_faults();
            if let Some(text) = self.again.take() {
                return Some(Ok(text));
            }
            match self.interruption() {
                Some(StreamAction::Reset) => {
                    self.over = true;
                    return Some(Err(Reset));
                }
                Some(StreamAction::Gone) => {
                    self.over = true;
                    return Some(Ok(error_line(&Refusal::of_code(410))));
                }
                Some(StreamAction::Stall) => self.wait_for_change().await,
                Some(_) => return None,
                None => {
                    if let Some(line) = self.line().await {
                        return Some(Ok(self.tell(line)));
                    }
                }
            }
        }
        None
    }

    /// Adds new faults and drops those that were removed.
    fn take_faults(&mut self) {
        while let Some(armed) = self.faults.of_stream(&self.call, &mut self.seen) {
            self.armed.push(armed);
        }
        let faults = &self.faults;
        self.armed
            .retain(|(id, action)| !action.is_state() || faults.is_armed(*id));
    }

    /// Returns the first fault that blocks the next line.
    fn interruption(&self) -> Option<StreamAction> {
        let mut actions = self.armed.iter().map(|(_, action)| *action);
        actions.find(|action| match action {
            StreamAction::CutAfter(events) => self.events >= *events,
            StreamAction::Reset | StreamAction::Gone | StreamAction::Stall => true,
            StreamAction::Late(_) | StreamAction::Repeat => false,
        })
    }

    fn tell(&mut self, line: Line) -> Bytes {
        self.events += usize::from(line.event);
        let repeats = |(_, action): &(u64, StreamAction)| *action == StreamAction::Repeat;
        if line.event && self.armed.iter().any(repeats) {
            self.again = Some(line.text.clone());
        }
        line.text
    }

    /// Returns the current delay of events.
    fn delay(&self) -> Option<Duration> {
        let mut actions = self.armed.iter();
        actions.find_map(|(_, action)| match action {
            StreamAction::Late(delay) => Some(*delay),
            _ => None,
        })
    }

    /// Returns the next line when it is due; `None` means that the caller must check the whole state again.
    async fn line(&mut self) -> Option<Line> {
        let delay = self.delay();
        if delay.is_none()
            && let Some((_, line)) = self.late.pop_front()
        {
            return Some(line);
        }
        let due = self.late.front().map(|(due, _)| *due);
        if self.drained && due.is_none() {
            self.over = true;
            return None;
        }
        tokio::select! {
            biased;
            () = is_closed(self.closing.as_mut()) => self.over = true,
            Ok(()) = self.changed.changed() => {}
            () = reached(due) => return self.late.pop_front().map(|(_, line)| line),
            line = self.watch.next(), if !self.drained => match (line, delay) {
                (Some(line), None) => return Some(line),
                (Some(line), Some(delay)) => self.late.push_back((Instant::now() + delay, line)),
                (None, _) => {
                    self.drained = true;
                    // A line that is delayed beyond the end of the watch is never sent.
                    self.over |= self.watch.is_expired();
                }
            },
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

/// Resolves at the given time; never resolves for `None`.
async fn reached(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Resolves when the server closes; never resolves for `None`.
pub(super) async fn is_closed(closing: Option<&mut watch::Receiver<bool>>) {
    match closing {
        Some(closing) => {
            // An error means that the sender is gone, which counts as closed.
            let _closed = closing.wait_for(|closed| *closed).await.is_ok();
        }
        None => std::future::pending().await,
    }
}
