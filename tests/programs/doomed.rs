//! Has webhooks of both kinds, a validation rule and conversions, and is killed at one of its requests about them: `it webhooks::killing` starts
//! it.

use std::error::Error;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kopf_rs::{Client, Operator, Registry, Settings, ValidationRule, conversion, handler};
use kube::client::Body;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tower::service_fn;

/// Which request is the last one: `start, before request 1`.
struct Doom {
    at_end: bool,
    request: usize,
    after: bool,
    /// The operator was told to end.
    is_ending: AtomicBool,
    asked: AtomicUsize,
}

fn said(variable: &str) -> Result<String, String> {
    std::env::var(variable).map_err(|error| format!("{variable}: {error}"))
}

/// On one thread: nothing goes on while it is killed.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let doom = Arc::new(Doom::parse(&said("DOOM")?)?);
    let namespace = said("DOOM_NAMESPACE")?;
    let group = format!("{namespace}.kopf.dev");
    let [kind, old] = ["v1", "v1alpha1"].map(|version| (&*group, version, "kopfexamples"));
    let same = |name| conversion(name, |spec: Value| Ok(spec));
    let rule = ValidationRule::new("rule", "request.userInfo.username != 'nobody'");
    let registry = Registry::new()
        .validation_rule(kind, rule)
        .on_convert(old, kind, same("up"))
        .on_convert(kind, old, same("down"))
        .on_validate(kind, handler("not_too_large", |_| async { Ok(()) }))
        .on_mutate(kind, handler("with_colour", |_| async { Ok(()) }).ignore_failures(false));
    let mut settings = Settings::default();
    settings.read_environment()?;
    // Policies are cluster-wide.
    let operator = Operator::new(registry).name(&*namespace).settings(settings);
    let mut told = signal(SignalKind::terminate())?;
    let until = async {
        told.recv().await;
        doom.is_ending.store(true, Ordering::Relaxed);
    };
    let client = doomed(Client::try_default().await?, doom.clone());
    operator.namespaces([namespace]).run(client, until).await?;
    Ok(())
}

fn doomed(client: Client, doom: Arc<Doom>) -> Client {
    let service = service_fn(move |request: http::Request<Body>| {
        let (client, doom) = (client.clone(), doom.clone());
        async move {
            let is_last = doom.is_last(request.uri());
            if is_last && !doom.after {
                die();
            }
            let answer = client.send(request).await;
            if is_last {
                die();
            }
            answer
        }
    });
    Client::new(service, "default")
}

impl Doom {
    fn parse(words: &str) -> Result<Self, Box<dyn Error>> {
        let (_, request) = words.rsplit_once(' ').ok_or("no number")?;
        Ok(Self {
            at_end: words.starts_with("end"),
            request: request.parse()?,
            after: words.contains("after"),
            is_ending: AtomicBool::new(false),
            asked: AtomicUsize::new(0),
        })
    }

    fn is_last(&self, of: &http::Uri) -> bool {
        let words =
            ["/secrets", "webhookconfigurations", "validatingadmissionpolic", "customresourcedefinitions"];
        let counts = words.iter().any(|word| of.path().contains(word))
            && !of.query().is_some_and(|it| it.contains("watch="))
            && self.is_ending.load(Ordering::Relaxed) == self.at_end;
        counts && self.asked.fetch_add(1, Ordering::Relaxed) + 1 == self.request
    }
}

fn die() -> ! {
    let own = std::process::id().to_string();
    let killed = Command::new("sh").args(["-c", "kill -s KILL $0", &own]).status();
    panic!("{killed:?}");
}
