//! What all handles of a server share: the store behind its lock, who the server is, what it was asked.
//!
//! Promise: what a request changed is kept before anybody hears of it. Must not know transports.

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

/// How many objects controllers look at before requests have their turn.
const AT_A_TIME: usize = 64;

/// What all handles of a server share.
pub(crate) struct Core {
    store: Mutex<Store>,
    /// Those of the store.
    pub(super) tokens: Tokens,
    identity: Mutex<Option<Identity>>,
    /// Where the identity is kept, if it is.
    passport: Option<Passport>,
    pub(crate) journal: Journal,
    pub(crate) faults: Faults,
    pub(crate) keeper: Keeper,
}

/// The store, for as long as this lives; what was changed is committed at the latest when it goes, unless by a panic.
#[derive(Debug)]
pub(crate) struct Locked<'a>(MutexGuard<'a, Store>);

/// Why a server cannot be known again.
#[derive(Debug)]
pub(crate) enum Nobody {
    Tls(TlsError),
    Keep { path: PathBuf, source: io::Error },
}

/// What came of a call, and what it changed.
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
        // Who must not answer before it is kept has committed already; others find out with the next request.
        let _kept = self.0.commit();
    }
}

// === impl Core ===

impl fmt::Debug for Core {
    /// Without objects, keys and tokens: embedding programs print it.
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

    /// The same, known to clients as it was before.
    pub(crate) fn with_passport(mut self, passport: Passport, identity: Option<Identity>) -> Self {
        self.passport = Some(passport);
        self.identity = Mutex::new(identity);
        self
    }

    pub(crate) fn store(&self) -> Locked<'_> {
        Locked(self.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Where the server listened before, if that is known.
    pub(crate) fn last_port(&self) -> Option<u16> {
        self.identity().as_ref().and_then(|identity| identity.port)
    }

    /// Be somebody from the start, and sign tokens as before.
    pub(crate) fn settle(&self) -> Result<(), Nobody> {
        let identity = self.identify(clock::real_seconds(), None)?;
        let signs = self.store().access.sign_with(&identity.accounts_key);
        signs.map_err(TlsError::from)?;
        Ok(())
    }

    /// Who the server is, made up if it has been nobody yet, and where it listens from now on.
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

    /// Answer a call, and keep what it changed before anybody hears of it; nothing if it is to be run again.
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
        // What was due before is nothing this request did; if it cannot be kept, neither can what follows.
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

    /// Let the clock jump, and wake the task that does what is due by then.
    pub(crate) fn jump_clock(&self, seconds: i64) {
        let store = self.store();
        store.clock.jump(seconds);
        store.signal.notify_one();
    }

    /// Do what is due, and tell how long until there is more.
    pub(crate) fn tend(&self) -> Option<Duration> {
        let mut store = self.store();
        later::run(&mut store);
        if workloads::step(&mut store, AT_A_TIME) {
            return Some(Duration::ZERO);
        }
        let first = store.agenda.first()?;
        let wait = first.duration_since(store.clock.now());
        // Clocks of the world are coarser than tokio's: better a little late than too early.
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
