//! Tests login handlers that hang, and those for which other handlers wait.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::engine::invoke::Invoker;
use crate::handler::cause::{Attempt, CauseContext};
use crate::handler::definition::HandlerCall;
use crate::handler::options::Callback;
use crate::handler::registry::Registry;
use crate::handler::registry::callback::{handler, handler_blocking};
use crate::handler::subject::Subject;
use crate::object::patch::Patch;
use crate::object::reference::Reference;
use crate::operator::settings::Settings;
use crate::rt::clock::Clock;

fn handlers(callback: Callback) -> LoginHandlers {
    let registry = Registry::new().on_login(callback);
    LoginHandlers {
        group: HandlerGroup {
            handlers: registry.handlers().to_vec(),
            invoker: Arc::new(Invoker::new(Clock::start(), 1, None)),
            context: CauseContext::default(),
        },
        rng: Arc::new(Rng::seeded(1)),
        settings: StartupSettings::new(Settings::default()),
    }
}

#[tokio::test(start_paused = true)]
async fn a_login_that_hangs_is_cut_off_and_made_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let mut logins = handlers(handler("login_fn", move |_| {
        let call = counted.fetch_add(1, Relaxed);
        async move {
            if call == 0 {
                std::future::pending::<()>().await;
            }
            Ok(ConnectionInfo::new("http://x"))
        }
    }));
    let login = logins.login(LoginReason::First);
    let found = tokio::time::timeout(Duration::from_secs(120), login).await;
    let found = found.expect("it ends").expect("there are credentials");
    assert_eq!((found.len(), calls.load(Relaxed)), (1, 2));
}

#[tokio::test]
async fn a_login_on_a_thread_waits_for_no_other_thread() {
    let mut logins = handlers(handler_blocking("login_fn", |_, _| Ok(ConnectionInfo::new("http://x"))));
    let begun = Arc::new(Notify::new());
    let (end, ended) = channel::<()>();
    let (tell, ended) = (begun.clone(), Mutex::new(ended));
    let probe = handler_blocking("probe_fn", move |_, _| {
        tell.notify_one();
        let _ = ended.lock().recv();
        Ok(())
    });
    let registry = Registry::new().on_probe(probe);
    let attempt = Attempt {
        retry: 0,
        is_first: true,
        started: logins.group.invoker.clock.now(),
        runtime: Duration::ZERO,
        key: None,
    };
    let subject = Subject::Activity(Activity::Probe);
    let (handler, context) = (registry.handlers()[0].clone(), CauseContext::default());
    let cause = HandlerCall::new(handler, context, attempt, subject);
    let invoker = logins.group.invoker.clone();
    let probing = tokio::spawn(async move {
        let (about, mut patch) = (Reference::default(), Patch::new());
        invoker.invoke(&cause, &about, &mut patch).await.is_ok()
    });
    begun.notified().await;
    let login = logins.login(LoginReason::First);
    let found = tokio::time::timeout(Duration::from_secs(10), login).await;
    drop(end);
    assert!(probing.await.expect("it does not panic"));
    let found = found.expect("nobody has to wait for the probe");
    assert_eq!(found.map(|it| it.len()), Ok(1));
}
