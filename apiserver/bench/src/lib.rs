//! Code of all benchmarks: the measured objects, connections with little cost of their own, the usage of processes, medians and ratios.
//!
//! Must not know the measurements.

#![expect(
    clippy::missing_errors_doc,
    reason = "an error ends a benchmark, and its message says enough"
)]

pub mod connection;
pub mod usage;

use serde_json::{Value, json};

/// The API version of the measured objects.
pub const API_VERSION: &str = "bench.kopf.rs/v1";
/// The size of the text in every object, which makes one to two kilobytes of JSON in total.
const TEXT_BYTES: usize = 1_200;

/// Returns an object of the measured kind that no operator has handled.
#[must_use]
pub fn object(name: &str, number: usize) -> Value {
    let words = ["lorem", "ipsum", "\"dolor\"", "sit", "amét", "consectetur"];
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    for at in number.. {
        if text.len() >= TEXT_BYTES {
            break;
        }
        text.push_str(words[at % words.len()]);
        text.push(' ');
    }
    json!({
        "apiVersion": API_VERSION, "kind": "BenchObj",
        "metadata": {"name": name},
        "spec": {"n": number, "text": text},
    })
}

/// Converts a count into a divisor.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "objects, requests and bytes of files stay far below 2^52"
)]
pub fn real(many: usize) -> f64 {
    many as f64
}

/// Returns the value in the middle; for an even number of values, the one between both in the middle.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns the median with the lowest and the highest value, as text.
#[must_use]
pub fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_unstable_by(f64::total_cmp);
    match (median(ratios.clone()), ratios.first(), ratios.last()) {
        (Some(middle), Some(low), Some(high)) if ratios.len() > 1 => {
            format!("{middle:.2} ({low:.2}-{high:.2})")
        }
        (Some(only), ..) => format!("{only:.2}"),
        (None, ..) => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_spread_has_both_ends() {
        assert_eq!(spread(vec![0.5, 3.0]), "1.75 (0.50-3.00)");
        assert_eq!(spread(Vec::new()), "-");
    }
}
