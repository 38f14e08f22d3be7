//! Admission handlers that warn about, deny and change requests before the API server executes them.
//!
//! The API server calls an operator only if its address is known: set it in `settings.admission`.

use kopf_rs::prelude::*;

/// Logs the user who sent the request, and the headers of the API server that forwards it.
#[on_validate("kopfexamples")]
fn introduce(headers: &Value, sslpeer: &Value, userinfo: UserInfo, warnings: &Warnings) {
    let agent = headers["user-agent"].as_str().unwrap_or("nobody");
    let user = userinfo.username;
    warnings.push(format!("{agent} asks for {user}"));
    if sslpeer["certificate"].is_null() {
        warnings.push("the API server has shown no certificate");
    }
}

#[on_validate("kopfexamples")]
fn no_wrong_field(#[from(spec.field)] field: Option<&str>, dryrun: bool) -> HandlerResult {
    if !dryrun && field == Some("wrong") {
        return Err(AdmissionError::new("spec.field is wrong"));
    }
    Ok(())
}

#[on_validate("kopfexamples", field = "spec.field", value = "not-allowed")]
fn no_such_value() -> HandlerResult {
    Err(AdmissionError::new("not today").code(555))
}

#[on_mutate("kopfexamples", labels = {"somelabel": "somevalue"})]
fn inject(patch: &mut Patch) {
    patch.set("spec.injected", 123);
}
