//! Warnings about certificates and keys in Secrets.
//!
//! Only checks the PEM blocks, and that their content may be a certificate. Independent of cryptography.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::object::Body;
use crate::valid::finder::map;

/// Returns the warning for the key pair in a Secret.
pub(super) fn warning(secret: &Body) -> Option<String> {
    let certificates = blocks(secret, "tls.crt");
    let keys = blocks(secret, "tls.key");
    let kinds = |blocks: &[Block]| {
        let kinds: Vec<&str> = blocks.iter().map(|block| block.kind.as_str()).collect();
        kinds.join(" ")
    };
    let skipped = "PEM block in certificate input after skipping PEM blocks of the following types";
    let certificate = certificates
        .iter()
        .find(|block| block.kind == "CERTIFICATE");
    let Some(certificate) = certificate else {
        return Some(match certificates.as_slice() {
            [] => "tls: failed to find any PEM data in certificate input".to_owned(),
            [only] if only.kind.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
            all => format!("tls: failed to find \"CERTIFICATE\" {skipped}: [{}]", kinds(all)),
        });
    };
    let is_key =
        |block: &&Block| block.kind == "PRIVATE KEY" || block.kind.ends_with(" PRIVATE KEY");
    if !keys.iter().any(|block| is_key(&block)) {
        let skipped = "PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types";
        return Some(match keys.as_slice() {
            [] => "tls: failed to find any PEM data in key input".to_owned(),
            [only] if only.kind == "CERTIFICATE" => {
                "tls: found a certificate rather than a key in the PEM for the private key"
                    .to_owned()
            }
            all => format!("tls: failed to find {skipped}: [{}]", kinds(all)),
        });
    }
    // Each certificate starts with an ASN.1 sequence.
    (certificate.content.first() != Some(&0x30)).then(|| "x509: malformed certificate".to_owned())
}

/// A PEM block.
struct Block {
    kind: String,
    content: Vec<u8>,
}

fn blocks(secret: &Body, key: &str) -> Vec<Block> {
    let value = map(secret, "data").and_then(|data| data.get(key));
    let encoded = value.and_then(Value::as_str).unwrap_or_default();
    let plain = STANDARD.decode(encoded).unwrap_or_default();
    let given = map(secret, "stringData").and_then(|data| data.get(key));
    let text = match given.and_then(Value::as_str) {
        Some(given) => given.to_owned(),
        None => String::from_utf8_lossy(&plain).into_owned(),
    };
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some((_, after)) = rest.split_once("-----BEGIN ") {
        let Some((kind, inner)) = after.split_once("-----") else {
            break;
        };
        rest = inner;
        let Some((content, after)) = inner.split_once(&format!("-----END {kind}-----")) else {
            continue;
        };
        let content: String = content.split_whitespace().collect();
        if let Ok(content) = STANDARD.decode(content) {
            let kind = kind.to_owned();
            found.push(Block { kind, content });
            rest = after;
        }
    }
    found
}
