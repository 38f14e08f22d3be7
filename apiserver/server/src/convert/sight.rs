//! Gives server-side apply and managed fields access to objects in other versions.
//!
//! Guarantees, like the real server, that a conversion goes through the version of the request and that the result matches its schema.
//! Must not depend on how managed fields are computed.

use crate::kind::{Kind, api_version};
use crate::managed::merge::{Flaw, flaws};
use crate::managed::outline::Outline;
use crate::managed::{Failure, Versions};
use crate::object::{Body, MANAGED, metadata_mut};
use crate::store::Store;
use crate::typed;

/// The view of a request on the versions of its kind.
pub(crate) struct Sight<'a, 's> {
    pub(crate) kind: &'a Kind,
    pub(crate) store: &'s mut Store,
}

// === impl Sight ===

impl Sight<'_, '_> {
    /// Returns the name of a version if the kind has it.
    fn name<'v>(&self, version: &'v str) -> Option<&'v str> {
        let name = version.rsplit('/').next()?;
        let known = self.kind.schemas.contains_key(name);
        (known && api_version(&self.kind.group, name) == version).then_some(name)
    }

    fn convert(&mut self, body: Body, from: &str, to: &str) -> Result<Body, Failure> {
        for (word, version) in [("to", to), ("from", from)] {
            if self.name(version).is_none() {
                let why =
                    format!("request to convert CR {word} an invalid group/version: {version}");
                return Err(Failure::Wrong(why));
            }
        }
        let (Some(conversion), Some(name)) = (&self.kind.conversion, self.name(to)) else {
            return Ok(body);
        };
        if from == to {
            return Ok(body);
        }
        let mut body = body;
        body.insert("apiVersion".to_owned(), from.into());
        body.insert("kind".to_owned(), self.kind.kind.as_str().into());
        metadata_mut(&mut body).remove(MANAGED);
        let asked = conversion.asked(self.store, &body, name);
        asked.map_err(Failure::Wrong)?.ok_or(Failure::Unasked)
    }
}

impl<'a> Versions<'a> for Sight<'a, '_> {
    fn outline(&self, version: &str) -> Outline<'a> {
        if self.kind.traits.builtin || version == self.kind.api_version() {
            return self.kind.outline();
        }
        let schema = self
            .name(version)
            .and_then(|name| self.kind.schemas.get(name));
        schema.map_or(Outline::Free, |schema| Outline::Root(schema))
    }

    fn view(&mut self, body: &Body, from: &str, to: &str) -> Result<Body, Failure> {
        let known = || typed::of_kind(to, &self.kind.kind).is_some();
        if from == to || (self.kind.traits.builtin && known()) {
            return Ok(body.clone());
        }
        if self.kind.traits.builtin {
            return Err(Failure::Missing);
        }
        let hub = self.kind.api_version();
        let body = self.convert(body.clone(), from, &hub)?;
        let body = self.convert(body, &hub, to)?;
        let found: Vec<String> = flaws(self.outline(to), &body, true)
            .iter()
            .map(Flaw::told)
            .collect();
        match found.as_slice() {
            [] => Ok(body),
            [one] => Err(Failure::Wrong(one.clone())),
            many => Err(Failure::Wrong(format!("errors:\n  {}", many.join("\n  ")))),
        }
    }
}
