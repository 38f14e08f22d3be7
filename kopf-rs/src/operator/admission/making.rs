//! Makes one generation of certificates: an authority that signs a single certificate and whose key is then discarded.
//!
//! Must not know where certificates are kept.

use std::time::Duration;

use jiff::Timestamp;

#[cfg(any(feature = "certificates", test))]
use crate::admission::certificates::BEHIND;
use crate::admission::certificates::Generation;

/// Makes a generation that is valid from now on.
#[cfg(any(feature = "certificates", test))]
pub(in crate::operator) fn make(
    names: &[String],
    number: u32,
    now: Timestamp,
    life: Duration,
) -> Result<Generation, String> {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        KeyUsagePurpose,
    };

    let failed = |error: rcgen::Error| format!("no certificate can be made: {error}");
    let from = now.checked_sub(BEHIND).unwrap_or(now);
    let until = now.checked_add(life).unwrap_or(Timestamp::MAX);
    // Unique, because two authorities of the same name would cause misleading errors.
    let authority_name = format!("kopf-rs admission authority {number} of {now}");
    let valid = |params: &mut CertificateParams, name: String| {
        params.not_before = std::time::SystemTime::from(from).into();
        params.not_after = std::time::SystemTime::from(until).into();
        params.distinguished_name.remove(DnType::CommonName);
        params.distinguished_name.push(DnType::CommonName, name);
    };
    let mut authority = CertificateParams::new(Vec::new()).map_err(failed)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut authority, authority_name);
    let authority_key = KeyPair::generate().map_err(failed)?;
    let authority_pem = authority.self_signed(&authority_key).map_err(failed)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let mut served = CertificateParams::new(names.to_vec()).map_err(failed)?;
    served.use_authority_key_identifier_extension = true;
    served.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    served.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    valid(&mut served, "kopf-rs admission".to_owned());
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = served.signed_by(&key, &issuer).map_err(failed)?.pem();
    Ok(Generation {
        names: names.to_vec(),
        made: now,
        not_after: until,
        authority: authority_pem,
        certificate,
        key: key.serialize_pem(),
    })
}

/// Fails because this program is built without the crate that makes certificates.
#[cfg(not(any(feature = "certificates", test)))]
pub(in crate::operator) fn make(
    _names: &[String],
    _number: u32,
    _now: Timestamp,
    _life: Duration,
) -> Result<Generation, String> {
    Err(
        "no certificate can be made, since this program is built without the feature `certificates` of kopf-rs: switch it on, or give \
         certificates in files (`settings.admission.certificate_file`, or `settings.metrics.certificate_file` for metrics)"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::admission::tls::flaw;
    use crate::rt::tls::{TlsVersion, server_config};

    #[test]
    fn what_is_made_is_good_for_its_names_and_its_time() {
        let names = ["hooks.team.svc", "localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let day = Duration::from_secs(24 * 3600);
        let made = make(&names, 1, now, day).unwrap();
        assert!(server_config(&made.certificate, &made.key, None, TlsVersion::V1_3).is_ok());
        assert_eq!(flaw(&made, now), None);
        let behind = now.checked_sub(BEHIND).unwrap();
        assert_eq!(flaw(&made, behind), None);
        let late = flaw(&made, now.checked_add(day * 2).unwrap()).unwrap();
        assert!(late.contains("expired"), "{late}");
        let mut other = made.clone();
        other.names.push("other.team.svc".to_owned());
        let wrong = flaw(&other, now).unwrap();
        assert!(wrong.contains("other.team.svc"), "{wrong}");
        let next = make(&names, 2, now, day).unwrap();
        let mixed = Generation { authority: next.authority.clone(), ..made.clone() };
        assert!(flaw(&mixed, now).is_some());
        let refused = server_config(&made.certificate, &next.key, None, TlsVersion::V1_2).unwrap_err();
        assert!(refused.contains("cannot be served"), "{refused}");
    }
}
