//! Applies definitions of custom resources that operators bring along.
//!
//! This module does not know who requests them.

use http::Request;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use crate::cluster::Client;
use crate::cluster::child::APPLY;
use crate::cluster::request::escaped;

/// The field manager of definitions, the same for all operators.
const MANAGER: &str = "kopf-rs";

/// The server's verdict on a definition.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Established,
    Refused(String),
    Pending,
}

/// Applies a definition.
pub(crate) async fn apply_definition(
    client: &Client,
    name: &str,
    definition: &Value,
) -> Result<Verdict, String> {
    let name = escaped(name);
    let path = format!(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}?fieldManager={MANAGER}&force=true"
    );
    let request = Request::patch(path).header(CONTENT_TYPE, APPLY);
    let request = request.body(definition.to_string().into_bytes());
    let request = request.map_err(|error| error.to_string())?;
    let registered = match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 422) => {
            return Ok(Verdict::Refused(status.message));
        }
        registered => registered.map_err(|error| error.to_string())?,
    };
    let conditions = registered["status"]["conditions"].as_array();
    Ok(verdict(conditions.map_or(&[], Vec::as_slice)))
}

/// Derives the verdict from the conditions of a definition.
pub(crate) fn verdict(conditions: &[Value]) -> Verdict {
    let says = |kind: &str, status: &str| {
        let mut all = conditions.iter();
        all.find(|condition| condition["type"] == kind && condition["status"] == status)
    };
    if let Some(refused) = says("NamesAccepted", "False") {
        let message = refused["message"].as_str().unwrap_or("its names are taken");
        Verdict::Refused(message.to_owned())
    } else if says("Established", "True").is_some() {
        Verdict::Established
    } else {
        Verdict::Pending
    }
}
