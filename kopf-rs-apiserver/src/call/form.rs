//! The form an answer is wanted in, by the `Accept` header.
//!
//! Promise: the first acceptable form is taken. Must not know what is asked for.

use http::{HeaderMap, header};

/// The form the answer is wanted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    #[default]
    Whole,
    Table,
    Partial,
    /// Aggregated discovery, `v2` or `v2beta1`.
    Aggregated(&'static str),
}

/// The first accepted form this server can give; `None` if there is none.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Form> {
    let Some(accept) = headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()) else {
        return Some(Form::Whole);
    };
    if accept.trim().is_empty() {
        return Some(Form::Whole);
    }
    accept.split(',').find_map(form_of)
}

fn form_of(media: &str) -> Option<Form> {
    let mut parts = media.split(';').map(str::trim);
    if !matches!(parts.next()?, "application/json" | "*/*" | "application/*") {
        return None;
    }
    let params: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
    let get = |key: &str| params.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    match (get("as"), get("g"), get("v")) {
        (None, _, _) => Some(Form::Whole),
        (Some("Table"), Some("meta.k8s.io"), Some("v1" | "v1beta1")) => Some(Form::Table),
        (
            Some("PartialObjectMetadata" | "PartialObjectMetadataList"),
            Some("meta.k8s.io"),
            Some("v1" | "v1beta1"),
        ) => Some(Form::Partial),
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2")) => {
            Some(Form::Aggregated("v2"))
        }
        (Some("APIGroupDiscoveryList"), Some("apidiscovery.k8s.io"), Some("v2beta1")) => {
            Some(Form::Aggregated("v2beta1"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_form_that_can_be_given_is_given() {
        assert_eq!(form_of("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(
            form_of(" application/json;as=Table;v=v1;g=meta.k8s.io"),
            Some(Form::Table)
        );
        assert_eq!(form_of("application/json"), Some(Form::Whole));
    }
}
