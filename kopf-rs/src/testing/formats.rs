//! Generates texts in the formats that schemas can require. API servers reject other texts, and so do functions that
//! parse them.
//!
//! This module does not depend on schemas.

use crate::testing::random::Random;

/// Returns a random text of this format; `None` if the format allows any text.
pub(super) fn formatted(format: &str, dice: &mut Random) -> Option<String> {
    let number = dice.below(60);
    let uuid = |version: char| format!("6ba7b810-9dad-{version}1d1-80b4-00c04fd430{number:02}");
    Some(match format.replace('-', "").as_str() {
        "datetime" => format!("2026-01-02T03:04:{number:02}Z"),
        "date" => format!("2026-01-{:02}", number % 28 + 1),
        "duration" => format!("{number}s"),
        "byte" => ["AAAA", "YQ==", "YWI=", "YWJj"][number % 4].to_owned(),
        "ipv4" => format!("10.0.0.{number}"),
        "ipv6" => format!("2001:db8::{number:x}"),
        "cidr" => format!("10.0.{number}.0/24"),
        "mac" => format!("00:00:5e:00:53:{number:02x}"),
        "uri" => format!("https://example.com/a{number}?b=c"),
        "email" => format!("me{number}@example.com"),
        "hostname" => format!("host{number}.example.com"),
        "uuid" | "uuid4" => uuid('4'),
        "uuid3" => uuid('3'),
        "uuid5" => uuid('5'),
        "hexcolor" => format!("#a1b2{number:02}"),
        "rgbcolor" => format!("rgb({number},2,3)"),
        "creditcard" => "4111111111111111".to_owned(),
        "isbn" | "isbn10" => "0321751043".to_owned(),
        "isbn13" => "9780321751041".to_owned(),
        "ssn" => format!("123-45-67{number:02}"),
        "bsonobjectid" => format!("507f1f77bcf86cd7994390{number:02}"),
        "k8sshortname" => format!("name{number}"),
        "k8slongname" => format!("name{number}.example.com"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use crate::testing::TestCluster;
    use crate::testing::random::Random;
    use crate::testing::schema::random;

    const FORMATS: [&str; 27] = [
        "date-time",
        "date",
        "duration",
        "byte",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uri",
        "email",
        "hostname",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "hexcolor",
        "rgbcolor",
        "creditcard",
        "isbn",
        "isbn10",
        "isbn13",
        "ssn",
        "bsonobjectid",
        "k8s-short-name",
        "k8s-long-name",
        "password",
        "of-nobody",
    ];

    #[tokio::test(start_paused = true)]
    async fn an_api_server_takes_a_text_of_each_format() {
        let fields = FORMATS.map(|it| (it.to_owned(), json!({"type": "string", "format": it})));
        let required = json!(FORMATS);
        let spec = json!({"type": "object", "required": required, "properties": Map::from_iter(fields)});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                }],
            },
        });
        let cluster = TestCluster::with(&definition.to_string()).await;
        let mut specs = Vec::new();
        for seed in 0..20 {
            let spec = random(&spec, &mut Random::seeded(seed));
            let object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": format!("x{seed}")}, "spec": spec});
            // Panics if the server rejects the object.
            let made: Value = cluster.create(object).await;
            assert_eq!(made["spec"], spec);
            specs.push(spec);
        }
        specs.dedup();
        assert_eq!(specs.len(), 20, "they are not all the same");
    }
}
