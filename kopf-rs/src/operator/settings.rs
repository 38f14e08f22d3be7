//! Settings: plain values under Kopf's names, with defaults that need no thought.
//!
//! Must not know what anything is set for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cluster::watch::WatchPace;
use crate::handler::lifecycle::Lifecycle;
use crate::state::Persistence;

/// All settings of an operator. Startup handlers may change them through [`LiveSettings`]; later changes have no effect.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How handlers are picked, retried and run.
    pub execution: Execution,
    /// How daemons and timers are stopped.
    pub background: Background,
    /// How objects are queued.
    pub queueing: Queueing,
    /// How kinds are watched.
    pub watching: Watching,
    /// How the cluster is spoken to.
    pub networking: Networking,
    /// How kinds and namespaces are observed.
    pub scanning: Scanning,
    /// Where the state is kept on objects; by default in annotations under `{operator's name}.kopf.rs`.
    pub persistence: Option<Persistence>,
}

/// How handlers are picked, retried and run.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Which of the due handlers of an object run in one pass.
    pub lifecycle: Lifecycle,
    /// The delay after an arbitrary error of a handler without `backoff`, always the same; `None`: a growing one, from `first_backoff`
    /// to `longest_backoff`. Default: `None`.
    pub default_backoff: Option<Duration>,
    /// The shortest delay after the first arbitrary error of a handler without `backoff`; doubled with every further one, and up to a
    /// fifth longer by chance. Default: 1 second.
    pub first_backoff: Duration,
    /// The longest such delay. Default: 60 seconds.
    pub longest_backoff: Duration,
    /// How many blocking handlers run at the same time.
    pub max_workers: usize,
}

/// How daemons and timers are stopped.
#[derive(Clone, Debug)]
pub struct Background {
    /// How often it is told of a daemon that still runs while its object is to be deleted, where it has no `cancellation_polling` of its own.
    /// Default: 60 seconds.
    pub cancellation_polling: Duration,
}

/// How objects are queued.
#[derive(Clone, Debug)]
pub struct Queueing {
    /// How many objects may be in handlers or requests at the same time; `None`: any number. While its handlers run, an object is kept in
    /// memory as a whole, with some ten times the size of its JSON text: where handlers wait for long, and thousands of objects may need
    /// them at a time, this limit alone bounds that memory.
    pub worker_limit: Option<usize>,
    /// How long running handlers may go on when the operator stops, before they are cancelled.
    pub exit_timeout: Duration,
}

/// How kinds are watched.
#[derive(Clone, Debug)]
pub struct Watching {
    /// After how long the server is asked to end a watch, so that it is renewed; jittered.
    pub server_timeout: Duration,
    /// A watch that says nothing for that long, not even a bookmark, is renewed.
    pub inactivity_timeout: Duration,
    /// The first pause after a failure of a watch; doubled with every further one.
    pub reconnect_backoff: Duration,
    /// The longest such pause.
    pub longest_backoff: Duration,
    /// Objects per page of a listing, where the server has no streaming lists.
    pub chunk_size: u32,
}

/// How the cluster is spoken to.
#[derive(Clone, Debug)]
pub struct Networking {
    /// The first pause after a failed request; doubled with every further one.
    pub first_backoff: Duration,
    /// The longest such pause.
    pub longest_backoff: Duration,
    /// How many writes are under way at the same time.
    pub concurrent_writes: usize,
}

/// How kinds and namespaces are observed.
#[derive(Clone, Debug)]
pub struct Scanning {
    /// Do not watch for kinds and namespaces: those that exist at the start are all there will be.
    pub disabled: bool,
    /// How often kinds are looked for where they cannot be watched.
    pub interval: Duration,
}

/// The settings while startup handlers run. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct LiveSettings(Arc<Mutex<Settings>>);

impl LiveSettings {
    pub(crate) fn new(settings: Settings) -> Self {
        Self(Arc::new(Mutex::new(settings)))
    }

    /// A copy of them as they are now.
    #[must_use]
    pub fn get(&self) -> Settings {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Change them: `settings.change(|settings| settings.queueing.worker_limit = Some(10))`.
    pub fn change<T>(&self, change: impl FnOnce(&mut Settings) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Execution {
    /// The first and the longest delay after arbitrary errors.
    pub(super) fn backoff(&self) -> (Duration, Duration) {
        let growing = (self.first_backoff, self.longest_backoff);
        self.default_backoff.map_or(growing, |fixed| (fixed, fixed))
    }
}

impl Default for Execution {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            lifecycle: Lifecycle::default(),
            default_backoff: None,
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(60),
            max_workers: (processors + 4).min(32),
        }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self {
            cancellation_polling: Duration::from_secs(60),
        }
    }
}

impl Default for Queueing {
    fn default() -> Self {
        Self {
            worker_limit: None,
            exit_timeout: Duration::from_secs(2),
        }
    }
}

impl Default for Watching {
    fn default() -> Self {
        let pace = WatchPace::default();
        Self {
            server_timeout: pace.server_timeout,
            inactivity_timeout: pace.inactivity,
            reconnect_backoff: pace.backoff.0,
            longest_backoff: pace.backoff.1,
            chunk_size: pace.page,
        }
    }
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            first_backoff: Duration::from_millis(250),
            longest_backoff: Duration::from_secs(30),
            concurrent_writes: 16,
        }
    }
}

impl Default for Scanning {
    fn default() -> Self {
        Self {
            disabled: false,
            interval: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_backoff_is_fixed_where_it_is_given() {
        let mut execution = Execution::default();
        let seconds = |(first, longest): (Duration, Duration)| (first.as_secs(), longest.as_secs());
        assert_eq!(seconds(execution.backoff()), (1, 60));
        execution.default_backoff = Some(Duration::from_secs(7));
        assert_eq!(seconds(execution.backoff()), (7, 7));
    }
}
