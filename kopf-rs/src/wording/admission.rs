//! The log lines about the endpoint for admission webhooks.

use std::fmt::{self, Formatter};

use tracing::Level;

use crate::happening::admission::AdmissionServing;

pub(super) fn level(happening: &AdmissionServing) -> Level {
    match happening {
        AdmissionServing::Served { .. }
        | AdmissionServing::CertificateMade { .. }
        | AdmissionServing::CertificateServed { .. }
        | AdmissionServing::Configured { .. } => Level::INFO,
        AdmissionServing::SecretMended { .. }
        | AdmissionServing::FilesFailed { .. }
        | AdmissionServing::CertificatesFailed { .. }
        | AdmissionServing::ConfigurationFailed { .. }
        | AdmissionServing::ConfigurationLeft { .. }
        | AdmissionServing::Contested { .. } => Level::WARN,
    }
}

pub(super) fn write(f: &mut Formatter<'_>, happening: &AdmissionServing) -> fmt::Result {
    match happening {
        AdmissionServing::Served { port, at } => {
            write!(
                f,
                "Admission webhooks are served at port {port}, for the API server at {at}"
            )
        }
        AdmissionServing::CertificateMade { number, life } => {
            let days = life.as_secs_f64() / 86400.0;
            write!(
                f,
                "A certificate for admission webhooks is made: number {number}, valid for {days:.1} days."
            )
        }
        AdmissionServing::CertificateServed { number } => {
            write!(
                f,
                "Certificate number {number} is served for admission webhooks."
            )
        }
        AdmissionServing::SecretMended { secret, problem } => {
            write!(
                f,
                "The Secret {secret} with the certificates for admission webhooks was mended: {problem}."
            )
        }
        AdmissionServing::FilesFailed { problem } => write!(
            f,
            "The certificate for admission webhooks cannot be read anew; the former one is served: {problem}"
        ),
        AdmissionServing::CertificatesFailed { problem, pause } => {
            let seconds = pause.as_secs_f64();
            write!(
                f,
                "The certificates for admission webhooks cannot be kept; will retry in {seconds:.1} seconds: {problem}"
            )
        }
        other => write_of_configurations(f, other),
    }
}

fn write_of_configurations(f: &mut Formatter<'_>, happening: &AdmissionServing) -> fmt::Result {
    match happening {
        AdmissionServing::Served { .. }
        | AdmissionServing::CertificateMade { .. }
        | AdmissionServing::CertificateServed { .. }
        | AdmissionServing::SecretMended { .. }
        | AdmissionServing::FilesFailed { .. }
        | AdmissionServing::CertificatesFailed { .. } => Ok(()),
        AdmissionServing::Configured {
            configuration,
            webhooks,
        } => write!(f, "{configuration} is written: {webhooks} webhooks."),
        AdmissionServing::ConfigurationFailed {
            configuration,
            error,
            pause,
        } => {
            let seconds = pause.as_secs_f64();
            write!(
                f,
                "{configuration} cannot be written; will retry in {seconds:.1} seconds: {error}"
            )
        }
        AdmissionServing::ConfigurationLeft {
            configuration,
            error,
        } => write!(
            f,
            "{configuration} may still have webhooks that nobody answers, since it could not be changed at the end of the operator. The next start puts \
             that right; else delete it: {error}"
        ),
        AdmissionServing::Contested {
            what,
            by,
            times,
            longest,
        } => {
            let by = if by.is_empty() { "somebody else" } else { by };
            write!(
                f,
                "{what} was put right {times} times in a row, and each time it was changed again, last by `{by}`. From now on it is put right after \
                 pauses of up to {} seconds. Does another operator keep the same object, by the same `settings.admission.managed` for instance?",
                longest.as_secs()
            )
        }
    }
}
