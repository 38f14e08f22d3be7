//! An operator inside a program that also does other work: the program stops the operator, and passes values to its
//! handlers.
//!
//! This is the `main.rs` of a separate crate. `examples/myapp-in-a-program` is such a crate.

use kopf_rs::prelude::*;
use kopf_rs::{Operator, OperatorError, Registry, Report};
use tokio::sync::oneshot;

/// The values that the program passes to the handlers.
struct Texts {
    hello: &'static str,
    good_bye: &'static str,
}

#[on_create("kopfexamples")]
async fn create_fn(name: &str, texts: State<Texts>) {
    info!("{}, {name}!", texts.hello);
}

#[on_delete("kopfexamples")]
async fn delete_fn(name: &str, texts: State<Texts>) {
    info!("{}, {name}!", texts.good_bye);
}

/// The program: starts the operator, runs its own activity, and stops the operator.
pub(crate) async fn app(
    client: Client,
    handlers: Registry,
    activity: impl AsyncFnOnce(),
) -> Result<Report, OperatorError> {
    let operator =
        Operator::new(handlers).name("embedded").with(Texts { hello: "Hello", good_bye: "Good bye" });
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(async move { operator.run(client, stopped).await });
    activity().await;
    drop(stop);
    running.await.expect("the operator does not panic")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    app(client, Registry::collected()?, async || {
        // The program's own work, until it should end.
        let _ = tokio::signal::ctrl_c().await;
    })
    .await?;
    Ok(())
}
