//! What happens to the endpoint for admission webhooks, and to what the API server is told of it.
//!
//! Must not know any wording.

use std::time::Duration;

/// Something that has happened there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionServing {
    /// The endpoint listens at this port, and the API server is to reach it there.
    Served { port: u16, at: String },
    /// A certificate was made: the number of its generation, and how long it is valid.
    CertificateMade { number: u32, life: Duration },
    /// Another certificate is served from now on.
    CertificateServed { number: u32 },
    /// What the Secret holds is no good: what is in memory was written back, or something new was made.
    SecretMended { secret: String, problem: String },
    /// Certificates cannot be kept as they should be; what is served stays.
    CertificatesFailed { problem: String, pause: Duration },
    /// The files with the certificate cannot be used; what is served stays.
    FilesFailed { problem: String },
    /// A configuration was written, with so many webhooks.
    Configured {
        configuration: String,
        webhooks: usize,
    },
    /// A configuration cannot be written.
    ConfigurationFailed {
        configuration: String,
        error: String,
        pause: Duration,
    },
    /// A configuration could not be changed at the end: its webhooks may still be there.
    ConfigurationLeft {
        configuration: String,
        error: String,
    },
    /// Others change again and again what the operator keeps right: so many times in a row by now, and it pauses from now on, for so long at most.
    Contested {
        what: String,
        /// The field manager of the last change; empty where nobody knows.
        by: String,
        times: u32,
        longest: Duration,
    },
}
