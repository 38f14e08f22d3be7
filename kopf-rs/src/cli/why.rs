//! `--why`: explains the state of an object, and exits.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use kopf_rs_flags::{Flags, Output};

use crate::cli::connecting::{checked_connection, complete, options};
use crate::cluster::connect::Connection;
use crate::operator::run::Operator;
use crate::why::question::WhyQuestion;

/// Prints the explanation of the object's state.
pub(super) fn explain(operator: Operator, object: &str, flags: &Flags) -> Result<ExitCode, Box<dyn Error>> {
    let mut question = WhyQuestion::parse(object)?;
    if let Some(endpoint) = &flags.health.liveness {
        question = question.endpoint(endpoint);
    }
    for change in &flags.why.changes {
        question = question.if_changed(change)?;
    }
    let explanation = complete(async {
        let Connection { client, .. } = checked_connection(&options(&flags.cluster.connection)).await?;
        Ok(operator.why(client, question).await?)
    })?;
    let text = match flags.why.format {
        Output::Text => explanation.to_string(),
        Output::Json => format!("{:#}\n", explanation.to_json()),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if explanation.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
