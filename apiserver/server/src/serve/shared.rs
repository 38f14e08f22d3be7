//! The state that all handles of a server share: the locked store, the server's identity, the journal.
//!
//! Guarantees that a request's changes are persisted before anyone can observe them. Must not depend on transports.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::tls::{self, TlsError};
use crate::access::{self, Tokens};
use crate::clock;
use crate::disk::DiskError;
use crate::disk::identity::{Identity, Passport};
use crate::fault::Faults;
use crate::journal::Journal;
use crate::keep::Keeper;
use crate::later;
use crate::status::Refusal;
use crate::store::Store;
use crate::store::batch::Effect;
use crate::verb::Answer;
use crate::workloads;

/// The maximum number of objects that controllers reconcile before requests get their turn.
const AT_A_TIME: usize = 64;

/// The state that all handles of a server share.
pub(crate) struct Core {
    store: Mutex<Store>,
    /// The same tokens as in the store.
    pub(super) tokens: Tokens,
    identity: Mutex<Option<Identity>>,
    /// The stored identity, if the server has a data directory.
    passport: Option<Passport>,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    pub(crate) keeper: Keeper,
}

/// The locked store. Dropping it commits pending changes, unless the thread panics.
#[derive(Debug)]
pub(crate) struct Locked<'a>(MutexGuard<'a, Store>);

/// The reason why the server's identity cannot be created or stored.
#[derive(Debug)]
pub(crate) enum Nobody {
    Tls(TlsError),
    Keep { path: PathBuf, source: io::Error },
}

/// The result of a call and its changes.
pub(super) type Answered = (Result<Answer, Refusal>, Vec<Effect>);

// === impl Locked ===

impl Deref for Locked<'_> {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Store {
        &mut self.0
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return self.0.tear();
        }
        // Callers that must answer only after a commit have committed already; others see an error with the next request.
        let _kept = self.0.commit();
    }
}

// === impl Core ===

impl fmt::Debug for Core {
    /// Omits objects, keys and tokens, because embedding programs may print this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

impl Core {
    pub(crate) fn new(mut store: Store) -> Self {
        let keeper = Keeper::default();
        store.signal = keeper.signal();
        Self {
            keeper,
            tokens: store.access.tokens.clone(),
            store: Mutex::new(store),
            identity: Mutex::default(),
            passport: None,
            journal: Journal::new(),
            faults: Faults::new(),
        }
    }

    /// Uses the identity of an earlier run, so that clients recognize the server.
    pub(crate) fn with_passport(mut self, passport: Passport, identity: Option<Identity>) -> Self {
        self.passport = Some(passport);
        self.identity = Mutex::new(identity);
        self
    }

    pub(crate) fn store(&self) -> Locked<'_> {
        Locked(self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the port on which the server listened before, if it is known.
    pub(crate) fn last_port(&self) -> Option<u16> {
        self.identity().as_ref().and_then(|identity| identity.port)
    }

    /// Creates the server's identity if it has none yet, and signs tokens with its key from now on.
    pub(crate) fn settle(&self) -> Result<(), Nobody> {
        let identity = self.identify(clock::real_seconds(), None)?;
        let signs = self.store().access.sign_with(&identity.accounts_key);
        signs.map_err(TlsError::from)?;
        Ok(())
    }

    /// Returns the server's identity, created on first use; `port` is stored as its new port.
    pub(crate) fn identify(&self, now: i64, port: Option<u16>) -> Result<Identity, Nobody> {
        let mut slot = self.identity();
        let mut identity = match &*slot {
            Some(known) => known.clone(),
            None => somebody(now)?,
        };
        identity.port = port.or(identity.port);
        if let Some(passport) = &self.passport
            && slot.as_ref() != Some(&identity)
        {
            let failed = |source| Nobody::Keep {
                path: passport.path().to_owned(),
                source,
            };
            passport.write(&identity).map_err(failed)?;
        }
        Ok(slot.insert(identity).clone())
    }

    fn identity(&self) -> MutexGuard<'_, Option<Identity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call and commits its changes before anyone can observe them; returns `None` if the call must run again.
    pub(super) fn answer(
        &self,
        run: impl FnOnce(&mut Store) -> Option<Result<Answer, Refusal>>,
    ) -> Option<Answered> {
        let unkept = |error: DiskError| (Err(Refusal::internal(error.to_string())), Vec::new());
        let mut store = self.store();
        if store.is_torn() {
            let told = "an earlier request ended in a panic, and what it changed is not kept; start the server again";
            return Some((Err(Refusal::internal(told)), Vec::new()));
        }
        if let Some(error) = store.broken() {
            return Some(unkept(error));
        }
        // Commits due tasks separately, because they are not part of this request; if that fails, the request fails, too.
        later::run(&mut store);
        if let Err(error) = store.commit() {
            return Some(unkept(error));
        }
        let result = run(&mut store)?;
        Some(match store.commit() {
            Ok(effects) => (result, effects),
            Err(error) => unkept(error),
        })
    }

    /// Moves the clock, and wakes the task that runs due work.
    pub(crate) fn jump_clock(&self, seconds: i64) {
        let store = self.store();
        store.clock.jump(seconds);
        store.signal.notify_one();
    }

    /// Runs due work; returns the time until the next task is due.
    pub(crate) fn tend(&self) -> Option<Duration> {
        let mut store = self.store();
        later::run(&mut store);
        if workloads::step(&mut store, AT_A_TIME) {
            return Some(Duration::ZERO);
        }
        let first = store.agenda.first()?;
        let wait = first.duration_since(store.clock.now());
        // The store's clock is coarser than Tokio's; waking slightly late is better than too early.
        Some(Duration::try_from(wait).unwrap_or_default() + Duration::from_millis(1))
    }
}

// === impl Nobody ===

impl From<TlsError> for Nobody {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

fn somebody(now: i64) -> Result<Identity, TlsError> {
    let (authority, authority_key) = tls::authority(now)?;
    Ok(Identity {
        authority,
        authority_key,
        accounts_key: access::token::new_key()?,
        token: Uuid::new_v4().simple().to_string(),
        port: None,
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::clock::Clock;

    #[tokio::test]
    async fn a_panic_halfway_keeps_nothing_and_ends_the_server() {
        let core = Core::new(Store::new(Clock::new()));
        let maps = |store: &Store| {
            let kind = store.kinds.kind("", "v1", "configmaps").cloned();
            let id = kind.expect("a built-in kind").collection;
            let feed = &store.collection(id).expect("it is served").feed;
            feed.since(0).len()
        };
        let before = maps(&core.store());
        let torn = catch_unwind(AssertUnwindSafe(|| {
            let mut store = core.store();
            let kind = store.kinds.kind("", "v1", "configmaps").cloned();
            let body = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default", "uid": "u"}});
            let serde_json::Value::Object(body) = body else {
                return;
            };
            store.put(kind.expect("a built-in kind").collection, body);
            panic!("halfway");
        }));
        assert!(torn.is_err());
        assert_eq!(maps(&core.store()), before, "no watcher hears of it");
        let answered = core.answer(|_| unreachable!("nothing is answered any more"));
        let (result, effects) = answered.expect("an answer");
        let refusal = result.expect_err("a refusal");
        assert!(
            refusal
                .body()
                .to_string()
                .contains("start the server again"),
            "{refusal:?}"
        );
        assert!(effects.is_empty());
    }
}
