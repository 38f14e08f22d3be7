//! The certificates of the admission endpoint, in generations: each has its own authority, which signs nothing else, and the served
//! certificate.
//!
//! This module guarantees that a generation is served only after all clients know its authority, and that it stays
//! trusted until it expires, so that a rotation fails no request. Pure functions: the time and the known state are
//! parameters. It does not know where generations are stored or how one is created.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// One authority with the certificate that it has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The names and addresses of the certificate, in order.
    pub(crate) names: Vec<String>,
    pub(crate) made: Timestamp,
    pub(crate) not_after: Timestamp,
    /// The certificate of the authority in PEM. Its private key is discarded.
    pub(crate) authority: String,
    /// The served certificate in PEM.
    pub(crate) certificate: String,
    /// The private key of the served certificate in PEM.
    pub(crate) key: String,
}

/// All stored generations by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The number of the served generation.
    pub(crate) serving: u32,
    pub(crate) all: BTreeMap<u32, Generation>,
}

/// The desired and the known state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Timestamp,
    /// The validity period of a generation.
    pub(crate) life: Duration,
    pub(crate) names: &'a [String],
    /// The newest generation whose authority all clients know, and the time since when they do.
    pub(crate) published: Option<(u32, Timestamp)>,
    /// The time that a written configuration needs to reach all clients.
    pub(crate) propagation: Duration,
}

/// The validity of certificates starts this long before their creation, because the clocks of API servers may be behind.
pub(crate) const BEHIND: Duration = Duration::from_secs(3600);

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Create a generation with this number. `at_once`: no valid certificate is served, so waiting would not help.
    Make { number: u32, at_once: bool },
    /// Serve the generation with this number, and drop expired ones.
    Serve { number: u32 },
    /// Do nothing until that time at the latest.
    Wait { until: Timestamp },
}

/// The reason why stored generations cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadGenerations(String);

/// Decides on the next action.
pub(crate) fn step(kept: &Generations, facts: Facts<'_>) -> Step {
    let Facts { now, life, .. } = facts;
    let newest = kept.all.last_key_value();
    let number = newest.map_or(1, |(number, _)| number + 1);
    let Some(served) = kept.all.get(&kept.serving).filter(|it| it.is_valid(now)) else {
        let usable = newest.filter(|(_, it)| it.is_valid(now) && it.names == facts.names);
        return match usable {
            Some((&number, _)) => Step::Serve { number },
            None => Step::Make { number, at_once: true },
        };
    };
    let next = newest.filter(|(number, it)| **number > kept.serving && it.is_valid(now));
    if let Some((&number, _)) = next {
        return next_step(number, served, facts);
    }
    let due = due(served, life);
    let is_wanted = served.names == facts.names;
    // Limits the rate when the desired names change often or the clock jumps.
    let earliest = later(served.made, life / 10);
    if now >= due || !is_wanted && now >= earliest {
        return Step::Make { number, at_once: false };
    }
    Step::Wait { until: if is_wanted { due } else { due.min(earliest) } }
}

/// Decides when to serve an existing next generation, depending on whether all clients know it.
fn next_step(number: u32, served: &Generation, facts: Facts<'_>) -> Step {
    let known = facts.published.filter(|(published, _)| *published >= number);
    match known.map(|(_, since)| later(since, facts.propagation)) {
        Some(at) if at <= facts.now => Step::Serve { number },
        Some(at) => Step::Wait { until: at },
        // The component that writes configurations reports their propagation. Without such a report, the former generation is served until it
        // expires.
        None => Step::Wait { until: served.not_after },
    }
}

/// Returns the time when a third of the validity period is left.
fn due(generation: &Generation, life: Duration) -> Timestamp {
    let third = SignedDuration::try_from(life / 3).unwrap_or_default();
    let due = generation.not_after.checked_sub(third);
    due.unwrap_or(generation.made)
}

fn later(from: Timestamp, duration: Duration) -> Timestamp {
    from.checked_add(duration).unwrap_or(Timestamp::MAX)
}

impl Generation {
    /// Returns true if clients accept the certificate at that time.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        later(now, BEHIND) >= self.made && self.not_after > now
    }
}

impl Generations {
    /// Returns the served generation.
    pub(crate) fn served(&self) -> Option<&Generation> {
        self.all.get(&self.serving)
    }

    /// Returns the number of the newest generation.
    pub(crate) fn newest(&self) -> u32 {
        self.all.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Returns all authorities whose certificates are or may soon be served, in PEM.
    pub(crate) fn bundle(&self, now: Timestamp) -> String {
        let valid = self.all.values().filter(|it| it.not_after > now);
        valid.map(|it| it.authority.as_str()).collect()
    }

    /// Returns the newest generation whose authority is in a bundle.
    pub(crate) fn newest_in(&self, bundle: &str) -> Option<u32> {
        let known = self.all.iter().rev();
        let mut known = known.filter(|(_, it)| bundle.contains(it.authority.trim()));
        known.next().map(|(number, _)| *number)
    }

    /// Adds a generation.
    pub(crate) fn with(mut self, number: u32, generation: Generation) -> Self {
        self.all.insert(number, generation);
        self
    }

    /// Serves another generation, and drops expired ones.
    pub(crate) fn serving(mut self, number: u32, now: Timestamp) -> Self {
        self.serving = number;
        self.all.retain(|it, generation| *it == number || generation.not_after > now);
        self
    }

    /// Replaces spoiled generations by known copies, and drops those without a copy. The result may have no generation to serve.
    pub(crate) fn mended(mut self, spoiled: &[u32], known: &Self) -> Self {
        for number in spoiled {
            let found = self.all.remove(number);
            let good = known.all.get(number).filter(|it| Some(*it) != found.as_ref());
            if let Some(good) = good {
                self.all.insert(*number, good.clone());
            }
        }
        self
    }

    /// Returns the generations as the `data` of a Secret.
    pub(crate) fn to_data(&self) -> Map<String, Value> {
        let mut data = Map::new();
        let mut put = |key: String, text: &str| data.insert(key, STANDARD.encode(text).into());
        put(SERVING.to_owned(), &self.serving.to_string());
        for (number, it) in &self.all {
            let facts =
                json!({"names": it.names, "made": it.made.to_string(), "notAfter": it.not_after.to_string()});
            put(format!("{number}.json"), &facts.to_string());
            put(format!("{number}.ca.crt"), &it.authority);
            put(format!("{number}.tls.crt"), &it.certificate);
            put(format!("{number}.tls.key"), &it.key);
        }
        data
    }

    /// Parses the `data` of a Secret.
    pub(crate) fn of_data(data: &Value) -> Result<Self, BadGenerations> {
        let text = |key: &str| {
            let encoded = data[key].as_str();
            let encoded = encoded.ok_or_else(|| BadGenerations(format!("`{key}` is missing")))?;
            let bad = || BadGenerations(format!("`{key}` is not text"));
            let bytes = STANDARD.decode(encoded).map_err(|_| bad())?;
            String::from_utf8(bytes).map_err(|_| bad())
        };
        let serving = text(SERVING)?;
        let bad = |key: &str| BadGenerations(format!("`{key}` cannot be read"));
        let mut generations =
            Self { serving: serving.trim().parse().map_err(|_| bad(SERVING))?, all: BTreeMap::new() };
        for key in data.as_object().into_iter().flat_map(Map::keys) {
            let Some(number) = key.strip_suffix(".json") else {
                continue;
            };
            let facts: Value = serde_json::from_str(&text(key)?).map_err(|_| bad(key))?;
            let time = |name: &str| {
                let time = facts[name].as_str().and_then(|it| it.parse().ok());
                time.ok_or_else(|| bad(key))
            };
            let names = facts["names"].as_array().ok_or_else(|| bad(key))?;
            let names = names.iter().filter_map(Value::as_str);
            let generation = Generation {
                names: names.map(str::to_owned).collect(),
                made: time("made")?,
                not_after: time("notAfter")?,
                authority: text(&format!("{number}.ca.crt"))?,
                certificate: text(&format!("{number}.tls.crt"))?,
                key: text(&format!("{number}.tls.key"))?,
            };
            let number = number.parse().map_err(|_| bad(key))?;
            generations.all.insert(number, generation);
        }
        if generations.served().is_none() {
            let serving = generations.serving;
            return Err(BadGenerations(format!("generation {serving} is served but missing")));
        }
        Ok(generations)
    }
}

const SERVING: &str = "serving";

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;
    const LIFE: Duration = Duration::from_secs(90 * DAY);

    fn at(days: u64) -> Timestamp {
        later(Timestamp::UNIX_EPOCH, Duration::from_secs(days * DAY))
    }

    fn names() -> Vec<String> {
        vec!["a.ns.svc".to_owned()]
    }

    /// Returns a generation that was created on that day.
    fn generation(day: u64) -> Generation {
        Generation {
            names: names(),
            made: at(day),
            not_after: later(at(day), LIFE),
            authority: format!("authority of day {day}\n"),
            certificate: "certificate".to_owned(),
            key: "key".to_owned(),
        }
    }

    fn on(day: u64, kept: &Generations, published: Option<(u32, Timestamp)>) -> Step {
        when(at(day), kept, published)
    }

    fn when(now: Timestamp, kept: &Generations, published: Option<(u32, Timestamp)>) -> Step {
        let facts =
            Facts { now, life: LIFE, names: &names(), published, propagation: Duration::from_secs(60) };
        step(kept, facts)
    }

    fn one() -> Generations {
        Generations::default().with(1, generation(0)).serving(1, at(0))
    }

    #[test]
    fn the_first_generation_is_served_immediately() {
        let make = |number| Step::Make { number, at_once: true };
        assert_eq!(on(0, &Generations::default(), None), make(1));
        assert_eq!(on(1, &one(), None), Step::Wait { until: at(60) });
        // Expired certificates are useless, so a new one is created immediately: AD31.
        assert_eq!(on(90, &one(), None), make(2));
    }

    #[test]
    fn the_next_generation_is_served_once_all_know_it() {
        let make = Step::Make { number: 2, at_once: false };
        assert_eq!(on(60, &one(), Some((1, at(0)))), make);
        let two = one().with(2, generation(60));
        assert_eq!(two.bundle(at(61)), "authority of day 0\nauthority of day 60\n");
        assert_eq!(on(61, &two, Some((1, at(0)))), Step::Wait { until: at(90) });
        assert_eq!(on(61, &two, Some((2, at(60)))), Step::Serve { number: 2 });
        let just_now = Step::Wait { until: later(at(61), Duration::from_secs(60)) };
        assert_eq!(on(61, &two, Some((2, at(61)))), just_now);
        // Instances that still serve the first generation are trusted until it expires.
        let swapped = two.serving(2, at(61));
        assert_eq!(swapped.bundle(at(61)).lines().count(), 2);
        assert_eq!(swapped.bundle(at(91)), "authority of day 60\n");
        assert_eq!(on(61, &swapped, None), Step::Wait { until: at(120) });
        assert_eq!(swapped.newest_in("x\nauthority of day 60\ny"), Some(2));
    }

    #[test]
    fn other_names_make_a_generation_but_not_one_after_the_other() {
        let mut kept = one();
        kept.all.get_mut(&1).unwrap().names.clear();
        assert_eq!(on(1, &kept, None), Step::Wait { until: at(9) });
        let make = Step::Make { number: 2, at_once: false };
        assert_eq!(on(9, &kept, None), make);
    }

    #[test]
    fn a_wait_never_ends_in_the_past() {
        let mut kept = one();
        kept.all.get_mut(&1).unwrap().names.clear();
        let two = kept.with(2, generation(9));
        // Without a report of propagation, the first generation is served until it expires.
        assert_eq!(on(40, &two, None), Step::Wait { until: at(90) });
    }

    #[test]
    fn generations_made_by_a_fast_clock_are_replaced() {
        let ahead = one().with(2, generation(400)).serving(2, at(400));
        let make = Step::Make { number: 3, at_once: true };
        assert_eq!(on(1, &ahead, Some((2, at(400)))), make);
        // The validity of certificates starts a little earlier.
        let little = Generation { made: later(at(1), BEHIND), ..generation(1) };
        let little = one().with(2, little).serving(2, at(1));
        assert!(matches!(on(1, &little, None), Step::Wait { .. }));
        // The served generation is valid and the next one is not yet, so it is not served.
        let next = one().with(2, generation(400));
        let wait = Step::Wait { until: at(60) };
        assert_eq!(on(1, &next, Some((2, at(0)))), wait);
    }

    #[test]
    fn a_wrong_clock_makes_at_most_one_generation() {
        let hours = Duration::from_secs(2 * 3600);
        let kept = one();
        for now in [later(at(10), hours), at(10).checked_sub(hours).unwrap()] {
            assert_eq!(when(now, &kept, None), Step::Wait { until: at(60) }, "{now}");
        }
        // All served certificates seem to have expired.
        let make = |number| Step::Make { number, at_once: true };
        assert_eq!(on(375, &kept, None), make(2));
        let ahead = kept.with(2, generation(375)).serving(2, at(375));
        assert!(matches!(on(376, &ahead, None), Step::Wait { .. }));
        // The clock is correct again.
        assert_eq!(on(11, &ahead, None), make(3));
        let right = ahead.with(3, generation(11)).serving(3, at(11));
        assert_eq!(on(12, &right, None), Step::Wait { until: at(71) });
    }

    #[test]
    fn a_next_generation_is_served_where_the_former_one_has_ended() {
        let two = one().with(2, generation(60));
        assert_eq!(on(100, &two, None), Step::Serve { number: 2 });
    }

    #[test]
    fn secrets_keep_all_of_it() {
        let two = one().with(2, generation(60));
        let data = Value::Object(two.to_data());
        assert_eq!(Generations::of_data(&data).unwrap(), two);
        for (key, problem) in [
            ("serving", "`serving` is missing"),
            ("1.tls.key", "`1.tls.key` is missing"),
            ("1.json", "generation 1 is served but missing"),
        ] {
            let mut less = data.clone();
            less.as_object_mut().unwrap().remove(key);
            let refused = Generations::of_data(&less).unwrap_err().to_string();
            assert_eq!(refused, problem, "{key}");
        }
        let junk = json!({"serving": "%"});
        assert!(Generations::of_data(&junk).is_err());
    }

    #[test]
    fn spoiled_generations_are_repaired_from_known_copies() {
        let good = one().with(2, generation(60));
        let mut spoiled = good.clone();
        for number in [1, 2] {
            spoiled.all.get_mut(&number).unwrap().key = "junk".to_owned();
        }
        assert_eq!(spoiled.clone().mended(&[1, 2], &good), good);
        // No intact copy of the next generation is known, so it will be created again.
        let half = good.clone().with(2, spoiled.all[&2].clone());
        assert_eq!(half.clone().mended(&[2], &half), one());
        let nothing = spoiled.mended(&[1, 2], &Generations::default());
        assert_eq!((nothing.served(), nothing.all.len()), (None, 0));
    }
}
