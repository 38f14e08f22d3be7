//! `kopf-rs freeze` and `kopf-rs resume`: asks running operators to pause or resume, and exits.

use std::error::Error;

use jiff::Timestamp;
use kopf_rs_flags::pause::{Pause, Who};

use crate::cli::connecting::{complete, connection};
use crate::cluster::Cluster;
use crate::operator::identity::person;
use crate::operator::pausing::{Asked, PeeringQuestion};
use crate::operator::scope::{Patterns, Scope};

/// Sends the request from the command line.
pub(super) fn run(pause: &Pause) -> Result<(), Box<dyn Error>> {
    ask(&question(pause)?, pause.who())
}

fn question(pause: &Pause) -> Result<PeeringQuestion, Box<dyn Error>> {
    let who = pause.who();
    let scope =
        if who.namespaces.is_empty() { Scope::All } else { Scope::Some(Patterns::parse(&who.namespaces)?) };
    let question = PeeringQuestion {
        name: pause.peering().to_owned(),
        identity: who.id.clone().unwrap_or_else(person),
        scope,
        pause: None,
    };
    Ok(match pause {
        Pause::Freeze(it) => question.pausing(it.priority(), it.lifetime, it.message.clone()),
        Pause::Resume(_) => question,
    })
}

fn ask(question: &PeeringQuestion, who: &Who) -> Result<(), Box<dyn Error>> {
    let (asked, missing) = complete(async {
        let cluster = Cluster::new(connection(&who.connection).await?.client);
        Ok(question.ask(&cluster, Timestamp::now()).await?)
    })?;
    for asked in &asked {
        report(question, asked);
    }
    match missing {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

fn report(question: &PeeringQuestion, asked: &Asked) {
    let PeeringQuestion { name, identity, pause, .. } = question;
    let place = match &asked.namespace {
        Some(namespace) => format!("the peering '{name}' of the namespace '{namespace}'"),
        None => format!("the peering '{name}' of the whole cluster"),
    };
    if let Some(pause) = pause {
        let (priority, seconds) = (pause.priority, pause.lifetime.as_secs());
        tracing::info!(
            "Operators in {place} with a priority up to {priority} are asked to pause for {seconds} seconds, by '{identity}'."
        );
    } else if asked.is_done {
        tracing::info!("Operators in {place} may resume, as far as they paused for '{identity}'.");
    } else {
        let others = match &asked.others[..] {
            [] => "There are no records.".to_owned(),
            others => format!("There are records of: {}.", others.join(", ")),
        };
        tracing::warn!(
            "'{identity}' has not asked operators in {place} to pause, so there is no pause to end. {others} --id names the requester."
        );
    }
}
