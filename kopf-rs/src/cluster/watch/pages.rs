//! Lists by pages, for servers without streaming lists. A page is parsed item by item, never as a whole tree.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::cluster::error::ClusterError;
use crate::cluster::request::{Call, escaped};
use crate::cluster::watch::{End, METADATA_LIST, ObjectForm, PATIENCE, WatchEvent, Watched, Watcher};
use crate::object::event::EventType;
use crate::object::raw::Raw;

impl<'a> Watcher<'a> {
    pub(super) async fn pages(&mut self) -> End {
        let Watched { pace, .. } = self.watched;
        let resource = &self.watched.collection.resource;
        // If pages expire repeatedly because client or server are slow, the listing is requested in one piece.
        let limit = (self.expired < PATIENCE).then_some(pace.page);
        let mut token = String::new();
        let mut first = true;
        let asked = Instant::now();
        loop {
            let call = self.page_call(limit, &token);
            let page = match self.cluster.exchange(&call).await {
                Ok(page) => page,
                Err(ClusterError::Gone(message)) => {
                    self.expired += 1;
                    return End::Expired(message);
                }
                Err(error) => return End::Failed(error),
            };
            if std::mem::take(&mut first) {
                self.begin_listing(asked);
            }
            let api_version = resource.api_version();
            let read = read_page(&page, &mut |item| {
                let raw = if self.watched.form == ObjectForm::Object {
                    Raw::parse_item(item, &api_version, &resource.kind)?
                } else {
                    Raw::parse_whole(item)?
                };
                (self.sink)(WatchEvent::Object(EventType::Listed, raw));
                Ok(())
            });
            match read {
                Ok(Position { version, token: None }) => {
                    // The next listing may try streaming again.
                    self.unfinished = self.unfinished.min(PATIENCE - 1);
                    self.end_listing(version);
                    if self.version.is_none() {
                        let what = "a listing has no resourceVersion, so no watch can follow it";
                        return End::Garbled(format!("{what}; listing again and again"));
                    }
                    self.recover();
                    return End::Listed;
                }
                Ok(Position { token: Some(next), .. }) => {
                    token = next;
                    self.wait_for_room().await;
                }
                Err(error) => {
                    return End::Garbled(format!(
                        "a page of {} bytes is not a list: {error}; listing again",
                        page.len()
                    ));
                }
            }
        }
    }

    fn page_call(&self, limit: Option<u32>, token: &str) -> Call<'a> {
        let mut query = self.watched.selection.query();
        if let Some(limit) = limit {
            query.push_str("&limit=");
            query.push_str(&limit.to_string());
            if !token.is_empty() {
                query.push_str("&continue=");
                query.push_str(&escaped(token));
            }
        }
        let mut target = self.watched.collection.path();
        if let Some(parameters) = query.strip_prefix('&') {
            target.push('?');
            target.push_str(parameters);
        }
        let mut call = Call::get(target, self.asked());
        if self.watched.form == ObjectForm::Metadata {
            call.accept = METADATA_LIST;
        }
        call
    }
}

/// The position of a page in its listing.
#[derive(Debug, PartialEq)]
pub(in crate::cluster) struct Position {
    pub(in crate::cluster) version: String,
    /// `None` on the last page.
    pub(in crate::cluster) token: Option<String>,
}

type Each<'e> = &'e mut dyn FnMut(&str) -> Result<(), crate::object::raw::NotAnObject>;

/// Passes the text of every item to `each`.
pub(in crate::cluster) fn read_page(page: &[u8], each: Each<'_>) -> Result<Position, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(page);
    let position = deserializer.deserialize_map(Page { each })?;
    deserializer.end()?;
    Ok(position)
}

struct Page<'e> {
    each: Each<'e>,
}

struct Items<'e, 'f> {
    each: &'f mut Each<'e>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

impl<'de> Visitor<'de> for Page<'_> {
    type Value = Position;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Position, A::Error> {
        let mut metadata = None;
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            match key.as_ref() {
                "metadata" => metadata = Some(map.next_value::<ListMetadata>()?),
                "items" => map.next_value_seed(Items { each: &mut self.each })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let metadata = metadata.ok_or_else(|| serde::de::Error::missing_field("metadata"))?;
        Ok(Position {
            version: metadata.resource_version.unwrap_or_default(),
            token: metadata.r#continue.filter(|token| !token.is_empty()),
        })
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Go may write an empty list as `null`.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            (self.each)(item.get()).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(page: &str) -> Result<(Vec<String>, Position), String> {
        let mut items = Vec::new();
        let position = read_page(page.as_bytes(), &mut |item| {
            items.push(item.to_owned());
            Ok(())
        });
        Ok((items, position.map_err(|error| error.to_string())?))
    }

    #[test]
    fn items_and_metadata_are_found_in_any_order() {
        let position =
            |token: Option<&str>| Position { version: "9".into(), token: token.map(str::to_owned) };
        let (found, at) = items(
            r#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"abc"},"items":[{"a":1}, {"b":[2]}]}"#,
        )
        .unwrap();
        assert_eq!(found, [r#"{"a":1}"#, r#"{"b":[2]}"#]);
        assert_eq!(at, position(Some("abc")));
        let (found, at) =
            items(r#"{"items":null,"metadata":{"continue":"","resourceVersion":"9"}}"#).unwrap();
        assert!(found.is_empty());
        assert_eq!(at, position(None));
    }

    #[test]
    fn an_invalid_or_truncated_list_is_an_error() {
        for page in [
            "",
            "[]",
            r#"{"items":[]}"#,
            r#"{"metadata":{},"items":[{"a":1}"#,
            r#"{"metadata":{},"items":[]} more"#,
        ] {
            assert!(items(page).is_err(), "{page}");
        }
    }
}
