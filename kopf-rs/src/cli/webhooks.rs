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
        tell_of_instances(&clean.name, &found);
        if found.is_empty() && failures.is_empty() {
            tracing::info!("The operator `{}` has left nothing in this cluster.", clean.name);
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

fn tell_of_instances(operator: &str, found: &[Remains]) {
    let instances: BTreeSet<_> = found.iter().flat_map(|it| &it.instances).collect();
    if instances.is_empty() {
        return;
    }
    let instances: Vec<_> = instances.into_iter().map(String::as_str).collect();
    tracing::warn!(
        "Instances of the operator `{operator}` are registered that have not said their end: {}. Those that still run write anew what is removed: end \
         them first, then repeat this command. Those that were killed are registered until then, and do no harm.",
        instances.join(", ")
    );
}
