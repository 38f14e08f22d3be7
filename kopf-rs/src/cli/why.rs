//! `--why`: explains the state of an object, and exits.

use std::error::Error;
use std::future::Future;
use std::io::Write;
use std::process::ExitCode;

use kopf_rs_flags::{Flags, Output};
use tokio::runtime::Builder;

use crate::cluster::connect::Connection;
use crate::operator::run::Operator;
use crate::why::question::WhyQuestion;

/// Prints the explanation of the object's state.
pub(super) fn explain(
    operator: Operator,
    object: &str,
    flags: &Flags,
    connecting: impl Future<Output = Result<Connection, Box<dyn Error>>>,
) -> Result<ExitCode, Box<dyn Error>> {
    let mut question = WhyQuestion::parse(object)?;
    if let Some(endpoint) = &flags.health.liveness {
        question = question.endpoint(endpoint);
    }
    for change in &flags.why.changes {
        question = question.if_changed(change)?;
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let explanation = runtime.block_on(async {
        let Connection { client, .. } = connecting.await?;
        Ok::<_, Box<dyn Error>>(operator.why(client, question).await?)
    })?;
    let text = match flags.why.output {
        Output::Text => explanation.to_string(),
        Output::Json => format!("{:#}\n", explanation.to_json()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if explanation.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
