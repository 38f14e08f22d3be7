#[on_validate("kopf.dev", "v1", "kopfexamples", operations = [CREATE, "update", Operation::Delete], deleted, timeout = 10)]
async fn valid(spec: &Value, operation: Operation, old: Option<&Value>, userinfo: UserInfo, warnings: &Warnings) -> HandlerResult {
    Err(AdmissionError::new("no").code(418))
}

#[on_mutate("pods", subresource = "*", persistent, side_effects, ignore_failures, labels = {"app": "x"})]
fn inject(patch: &mut Patch, dryrun: bool, subresource: Option<&str>, headers: &Value, sslpeer: &Value) {}
