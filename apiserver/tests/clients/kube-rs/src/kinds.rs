//! A kind of one's own, and its definition derived from Rust types.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a garden wants.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "kube-rs.example.com",
    version = "v1",
    kind = "Garden",
    namespaced,
    status = "GardenStatus",
    shortname = "gd",
    printcolumn = r#"{"name": "Flowers", "type": "integer", "jsonPath": ".spec.flowers"}"#
)]
pub struct GardenSpec {
    /// How many.
    #[schemars(range(max = 100))]
    pub flowers: u32,
    /// Of what colour.
    #[serde(default = "red")]
    pub colour: String,
    /// What may be there, too.
    pub gnome: Option<Gnome>,
}

fn red() -> String {
    "red".to_owned()
}

/// Some have one of these.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
pub enum Gnome {
    /// It stands.
    Standing,
    /// It fishes.
    Fishing,
}

/// What there is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct GardenStatus {
    /// How many are planted.
    pub planted: u32,
}
