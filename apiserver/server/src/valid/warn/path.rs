//! Warnings about overlapping paths in volumes.
//!
//! Reports each pair once, the later path first. Independent of Pods.

use serde_json::Value;

use crate::object::{Body, text};
use crate::valid::finder::{items, map};

/// A path, and its source if there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: String,
    source: String,
}

// === impl Place ===

impl Place {
    fn new(path: &str, source: &str) -> Self {
        Self {
            path: path.trim_end_matches('/').to_owned(),
            source: source.to_owned(),
        }
    }

    fn shown(&self) -> String {
        match self.source.as_str() {
            "" => format!("{:?}", self.path),
            source => format!("{:?} ({source})", self.path),
        }
    }

    fn meets(&self, other: &Self) -> bool {
        let below = |one: &Self, two: &Self| {
            format!("{}/", one.path).starts_with(&format!("{}/", two.path))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (below(self, other) || below(other, self))
    }
}

/// Returns the warnings for a volume of a Pod.
pub(super) fn warnings(volume: &Body) -> Vec<String> {
    let name = text(volume, "name");
    let told = |of: &str, pair: &str| format!("volume {name:?} ({of}): overlapping paths: {pair}");
    let mut found = Vec::new();
    for (field, word, key) in [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        if let Some(source) = map(volume, field) {
            let of = match key {
                "" => word.to_owned(),
                key => format!("{word} {:?}", text(source, key)),
            };
            let mut seen = Vec::new();
            for pair in pairs(&mut seen, places(source, "")) {
                found.push(told(&of, &pair));
            }
        }
    }
    let Some(projected) = map(volume, "projected") else {
        return found;
    };
    let mut seen = Vec::new();
    for source in items(projected, "sources")
        .iter()
        .filter_map(Value::as_object)
    {
        if source.is_empty() {
            found.push(format!(
                "volume {name:?} (Projected) has no sources provided"
            ));
        }
        for pair in pairs(&mut seen, projection(source)) {
            found.push(told("Projected", &pair));
        }
    }
    found
}

fn places(source: &Body, of: &str) -> Vec<Place> {
    let paths = items(source, "items").iter();
    paths
        .filter_map(|item| Some(Place::new(item.get("path")?.as_str()?, of)))
        .collect()
}

fn projection(source: &Body) -> Vec<Place> {
    for (field, word) in [
        ("configMap", "ConfigMap"),
        ("secret", "Secret"),
        ("downwardAPI", "DownwardAPI"),
    ] {
        if let Some(found) = map(source, field).filter(|found| found.contains_key("items")) {
            return match field {
                "downwardAPI" => places(found, word),
                _ => places(found, &format!("{word} {:?}", text(found, "name"))),
            };
        }
    }
    if let Some(token) = map(source, "serviceAccountToken") {
        return vec![Place::new(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = map(source, "clusterTrustBundle") {
        let name = match text(bundle, "name") {
            "" => text(bundle, "signerName"),
            name => name,
        };
        let of = format!("ClusterTrustBundle {name:?}");
        return vec![Place::new(text(bundle, "path"), &of)];
    }
    Vec::new()
}

fn pairs(seen: &mut Vec<Place>, places: Vec<Place>) -> Vec<String> {
    let mut told = Vec::new();
    for place in places {
        let others = seen.iter().filter(|other| place.meets(other));
        told.extend(others.map(|other| format!("{} with {}", place.shown(), other.shown())));
        seen.push(place);
    }
    told
}
