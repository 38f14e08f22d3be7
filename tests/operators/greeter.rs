//! Objects that ask to be greeted: the operator of the tour in `docs/first-operator.md`.

use kopf_rs::prelude::*;

#[on_field("configmaps", field = "metadata.labels.greet")]
async fn greet(new: Option<&str>, name: &str, patch: &mut Patch) -> HandlerResult {
    let greeting = match new {
        Some("loudly") => format!("HELLO, {}!", name.to_uppercase()),
        Some("softly") => format!("hello, {name}"),
        Some(other) => fail!("label greet is {other:?}: expected loudly or softly"),
        None => return Ok(()),
    };
    info!("the greeting is {greeting:?}");
    patch.set("data.greeting", greeting);
    Ok(())
}
