//! What stands between an operator and the server in memory: answers that are read on the way, or replaced.
//!
//! This module must not depend on what is recorded.

use std::io;

use http::Response;
use http_body_util::{BodyExt as _, Either};
use kopf_rs_apiserver::ApiBody;
use kube::client::Body;
use serde_json::json;

/// The server's answer, or its replacement.
pub(crate) type Answer = Response<Either<ApiBody, Body>>;

/// Returns an answer that refuses a request.
pub(crate) fn refusal(code: u16) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": if code == 409 { "Conflict" } else { "InternalError" }, "message": "as the dice fell",
    });
    let answer = Response::builder().status(code).header("content-type", "application/json");
    let body = Body::from(status.to_string().into_bytes());
    answer.body(Either::Right(body)).expect("a valid answer")
}

/// Waits for the whole answer, and returns its bytes, too.
pub(crate) async fn read(answer: Response<ApiBody>) -> io::Result<(Answer, Vec<u8>)> {
    let (parts, body) = answer.into_parts();
    let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes().to_vec();
    Ok((Response::from_parts(parts, Either::Right(Body::from(bytes.clone()))), bytes))
}
