//! The versions of a `VoteConfig`, and how each becomes the other one.

use kopf_rs::AdmissionServer;
use kopf_rs::prelude::*;

/// The version that objects are stored in.
pub mod v1 {
    use kopf_rs::prelude::*;

    /// What an object asks for.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct VoteConfigSpec {
        /// What the vote is about.
        pub title: String,
        /// What can be voted for.
        pub options: Vec<String>,
    }
}

/// The older version.
pub mod v1alpha1 {
    use kopf_rs::prelude::*;

    /// What an object asks for.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct VoteConfigSpec {
        /// What the vote is about.
        pub question: String,
        /// What can be voted for, separated by commas.
        pub choices: String,
    }
}

/// From the older version.
#[on_convert("voteconfigs.voting.schoolofdevops.com", from = "v1alpha1", to = "v1")]
#[must_use]
pub fn up(spec: v1alpha1::VoteConfigSpec) -> v1::VoteConfigSpec {
    let options = spec.choices.split(',').map(|it| it.trim().to_owned());
    v1::VoteConfigSpec {
        title: spec.question,
        options: options.collect(),
    }
}

/// To the older version.
#[on_convert("voteconfigs.voting.schoolofdevops.com", from = "v1", to = "v1alpha1")]
#[must_use]
pub fn down(spec: v1::VoteConfigSpec) -> v1alpha1::VoteConfigSpec {
    v1alpha1::VoteConfigSpec {
        question: spec.title,
        choices: spec.options.join(","),
    }
}

/// Unless something else is said, the API server is on this machine, and the operator tells it by itself where to ask.
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
