//! Converts answers and refusals into HTTP responses.
//!
//! Guarantees the same responses for every transport. Must not depend on the store.

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

/// Converts an answer into a response; a watch continues, subject to faults, until the server closes.
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

/// Converts a refusal into a response.
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

/// Adds a header for each distinct warning.
fn warn(response: &mut Response<ApiBody>, warnings: &[String]) {
    for warning in bounded(warnings) {
        let text = format!(
            "299 - \"{}\"",
            warning.replace('\\', "\\\\").replace('"', "\\\"")
        );
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// The maximum total length of all warnings in characters.
const ALL_WARNINGS: usize = 4096;
/// If the total is exceeded, each warning is cut to this length, and the last ones are dropped.
const CUT_WARNING: usize = 256;

/// Returns each distinct warning once, within the length limits.
fn bounded(warnings: &[String]) -> Vec<String> {
    let mut told: Vec<&String> = Vec::new();
    for warning in warnings {
        if !warning.is_empty() && !told.contains(&warning) {
            told.push(warning);
        }
    }
    let length = |text: &str| text.chars().count();
    let total: usize = told.iter().map(|it| length(it)).sum();
    if total <= ALL_WARNINGS {
        return told.into_iter().cloned().collect();
    }
    let mut written = 0;
    let cut = told.into_iter().map_while(|text| {
        let text: String = text.chars().take(CUT_WARNING).collect();
        let has_room = written < ALL_WARNINGS;
        written += length(&text);
        has_room.then_some(text)
    });
    cut.collect()
}

/// Returns whether a page has an entity tag: clients often request discovery and `OpenAPI`, which seldom change.
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
    // Webhooks and faults can set codes that are not valid in HTTP.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_cut_where_they_are_too_long_together() {
        let of = |count: usize, length: usize| -> Vec<String> {
            let texts = (0..count).map(|number| format!("{number:0>length$}"));
            texts.collect()
        };
        let lengths = |warnings: &[String]| -> Vec<usize> {
            bounded(warnings).iter().map(String::len).collect()
        };
        assert_eq!(lengths(&of(13, 300)), [300; 13]);
        assert_eq!(lengths(&of(1, 4096)), [4096]);
        assert_eq!(lengths(&of(1, 4097)), [256]);
        // Warnings with equal beginnings still count as distinct.
        assert_eq!(lengths(&of(20, 300)), [256; 16]);
        assert_eq!(bounded(&["a".to_owned(), "a".to_owned()]), ["a"]);
    }
}
