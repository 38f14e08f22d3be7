//! Answers and refusals as HTTP responses: their headers and bodies.
//!
//! Promise: the same for every transport. Must not know the store.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use tokio::sync::watch;

use super::body::{ApiBody, WatchBody};
use super::polish;
use crate::call::Call;
use crate::fault::Faults;
use crate::render;
use crate::status::Refusal;
use crate::verb::{Answer, Content};

/// An answer as a response; a watch goes on under the faults asked for, until the server closes.
pub(super) fn of_answer(
    call: &Arc<Call>,
    answer: Answer,
    faults: &Faults,
    closing: Option<&watch::Receiver<bool>>,
) -> Response<ApiBody> {
    let mut tag = None;
    let body = match answer.content {
        Content::Bytes(bytes) => {
            if is_tagged(call) {
                let found = polish::tag(&bytes);
                if call.known.as_deref() == Some(found.as_str()) {
                    return tagged(
                        response(304, answer.content_type, ApiBody::full(Bytes::new())),
                        &found,
                    );
                }
                tag = Some(found);
            }
            let is_json = answer.content_type.starts_with("application/json");
            if is_json && polish::is_for_people(call) {
                ApiBody::full(polish::indented(&bytes))
            } else {
                ApiBody::full(bytes)
            }
        }
        Content::Watch(watch) => {
            let (faults, closing) = (faults.clone(), closing.cloned());
            ApiBody::watch(WatchBody::new(*watch, faults, call.clone(), closing))
        }
    };
    let mut response = response(answer.code, answer.content_type, body);
    if let Some(tag) = tag {
        response = tagged(response, &tag);
    }
    warn(&mut response, &answer.warnings);
    response
}

/// A refusal as a response.
pub(super) fn of_refusal(refusal: &Refusal) -> Response<ApiBody> {
    if let Some(text) = refusal.plain_text() {
        let body = ApiBody::full(Bytes::copy_from_slice(text.as_bytes()));
        return response(refusal.code, "text/plain; charset=utf-8", body);
    }
    let body = ApiBody::full(render::to_bytes(&refusal.body()));
    let mut response = response(refusal.code, "application/json", body);
    warn(&mut response, &refusal.warnings);
    if let Some(seconds) = refusal.retry_after_seconds() {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// Say each warning, once.
fn warn(response: &mut Response<ApiBody>, warnings: &[String]) {
    for (at, warning) in warnings.iter().enumerate() {
        if warnings[..at].contains(warning) {
            continue;
        }
        let text = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Discovery and `OpenAPI` are asked for again and again, and seldom change.
fn is_tagged(call: &Call) -> bool {
    let page = call.segments.first().map(String::as_str);
    call.path.is_none() && matches!(page, Some("api" | "apis" | "openapi"))
}

fn tagged(mut response: Response<ApiBody>, tag: &str) -> Response<ApiBody> {
    if let Ok(value) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, value);
        response
            .headers_mut()
            .insert(header::VARY, HeaderValue::from_static("Accept"));
    }
    response
}

fn response(code: u16, content_type: &'static str, body: ApiBody) -> Response<ApiBody> {
    let mut response = Response::new(body);
    // What is no code of HTTP comes of webhooks and faults that say so.
    let status = http::StatusCode::from_u16(code);
    *response.status_mut() = status.unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if code != 204 {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}
