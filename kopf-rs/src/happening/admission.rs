//! Happenings of the endpoint for admission webhooks, and of its configuration in the API server.
//!
//! This module contains no wording.

use std::time::Duration;

/// A happening of the endpoint or its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionServing {
    /// The endpoint listens on this port; the API server reaches it at this address.
    Served { port: u16, at: String },
    /// A certificate was generated. Carries its generation number and its validity.
    CertificateMade { number: u32, life: Duration },
    /// The endpoint serves a different certificate from now on.
    CertificateServed { number: u32 },
    /// The Secret's content was invalid. The operator has written its in-memory certificate back, or has generated a
    /// new one.
    SecretMended { secret: String, problem: String },
    /// The certificates cannot be stored or renewed; the endpoint keeps the current one.
    CertificatesFailed { problem: String, pause: Duration },
    /// The certificate files cannot be used; the endpoint keeps the current certificate.
    FilesFailed { problem: String },
    /// A webhook configuration with this many webhooks was written.
    Configured {
        configuration: String,
        webhooks: usize,
    },
    /// A webhook configuration cannot be written.
    ConfigurationFailed {
        configuration: String,
        error: String,
        pause: Duration,
    },
    /// A webhook configuration could not be changed at shutdown, so its webhooks may remain.
    ConfigurationLeft {
        configuration: String,
        error: String,
    },
    /// Other writers keep changing a configuration that the operator restores. Carries the number of changes in a
    /// row, and the maximum back-off, which applies from now on.
    Contested {
        what: String,
        /// The field manager of the last change; empty if unknown.
        by: String,
        times: u32,
        longest: Duration,
    },
}
