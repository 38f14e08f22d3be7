//! `kopf-rs webhooks clean`: removes an operator's configuration from the API server, and exits.

use std::collections::BTreeSet;
use std::error::Error;

use kopf_rs_flags::webhooks::Clean;

use crate::cli::connecting::{complete, connection};
use crate::cluster::Cluster;
use crate::operator::admission::cleaning::{Cleaning, Remains};

/// Removes the configuration, and logs the removed objects.
pub(super) fn clean(clean: &Clean) -> Result<(), Box<dyn Error>> {
    let cleaning = Cleaning::of(&clean.name)?;
    complete(async {
        let cluster = Cluster::new(connection(&clean.connection).await?.client);
        let (found, mut failures) = cleaning.find(&cluster).await;
        report_instances(&clean.name, &found);
        if found.is_empty() && failures.is_empty() {
            tracing::info!("The operator `{}` has no leftovers in this cluster.", clean.name);
        }
        for remains in &found {
            if clean.dry_run {
                tracing::info!("{} would be {}.", remains.what, remains.end);
                continue;
            }
            match cleaning.remove(&cluster, remains).await {
                Ok(done) => tracing::info!("{done}"),
                Err(failure) => failures.push(failure),
            }
        }
        failures.dedup();
        match failures.as_slice() {
            [] => Ok(()),
            failures => Err(failures.join("\n").into()),
        }
    })
}

fn report_instances(operator: &str, found: &[Remains]) {
    let instances: BTreeSet<_> = found.iter().flat_map(|it| &it.instances).collect();
    if instances.is_empty() {
        return;
    }
    let instances: Vec<_> = instances.into_iter().map(String::as_str).collect();
    tracing::warn!(
        "Instances of the operator `{operator}` have not deregistered: {}. Those that still run restore the removed objects: end \
         them first, then repeat this command. Killed ones stay registered until then, which is harmless.",
        instances.join(", ")
    );
}
