use kopf_rs::prelude::*;

#[validation_rule("apps", mesage = "a", warn = true, operations = [CHANGE])]
const MISSPELT: &str = "true";

#[validation_rule("apps")]
async fn no_constant() {}

#[validation_rule(message = "a")]
const NO_KIND: &str = "true";

fn main() {}
