//! The versions of a `VoteConfig`, with conversions in both directions.

use kopf_rs::AdmissionServer;
use kopf_rs::prelude::*;

/// The storage version.
pub mod v1 {
    use kopf_rs::prelude::*;

    /// The spec of the object.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct VoteConfigSpec {
        /// The subject of the vote.
        pub title: String,
        /// The options to choose from.
        pub options: Vec<String>,
    }
}

/// The older version.
pub mod v1alpha1 {
    use kopf_rs::prelude::*;

    /// The spec of the object.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct VoteConfigSpec {
        /// The subject of the vote.
        pub question: String,
        /// The options to choose from, separated by commas.
        pub choices: String,
    }
}

/// Converts from the older version.
#[on_convert("voteconfigs.voting.schoolofdevops.com", from = "v1alpha1", to = "v1")]
#[must_use]
pub fn up(spec: v1alpha1::VoteConfigSpec) -> v1::VoteConfigSpec {
    let options = spec.choices.split(',').map(|it| it.trim().to_owned());
    v1::VoteConfigSpec { title: spec.question, options: options.collect() }
}

/// Converts to the older version.
#[on_convert("voteconfigs.voting.schoolofdevops.com", from = "v1", to = "v1alpha1")]
#[must_use]
pub fn down(spec: v1::VoteConfigSpec) -> v1alpha1::VoteConfigSpec {
    v1alpha1::VoteConfigSpec { question: spec.title, choices: spec.options.join(",") }
}

/// By default, the API server runs on this machine, and the operator configures its own webhook address.
#[on_startup]
#[expect(clippy::needless_pass_by_value, reason = "settings are given by value")]
pub fn serve_conversions(settings: StartupSettings) {
    settings.change(|settings| {
        let admission = &mut settings.admission;
        admission.server.get_or_insert_with(AdmissionServer::local);
        let name = || "voteconfig.voting.schoolofdevops.com".to_owned();
        admission.managed.get_or_insert_with(name);
    });
}
