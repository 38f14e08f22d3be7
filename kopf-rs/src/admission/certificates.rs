//! The certificates of the admission endpoint as generations: each one an authority, which signs nothing else, and what is served with it.
//!
//! Promises that a generation is served only after all who ask know its authority, and is trusted until it ends, so that no rotation makes a
//! request fail. Pure: the time, and what is known, are arguments. Must not know where generations are kept, nor how one is made.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// One authority with what it has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// The names and addresses that it is for, in order.
    pub(crate) names: Vec<String>,
    pub(crate) made: Timestamp,
    pub(crate) not_after: Timestamp,
    /// The certificate of the authority, whose key exists no more: PEM.
    pub(crate) authority: String,
    /// What is served: PEM.
    pub(crate) certificate: String,
    /// Its private key: PEM.
    pub(crate) key: String,
}

/// All generations that are kept, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generations {
    /// The number of the one that is served.
    pub(crate) serving: u32,
    pub(crate) all: BTreeMap<u32, Generation>,
}

/// What is wanted, and what is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Timestamp,
    /// How long a generation is valid.
    pub(crate) life: Duration,
    pub(crate) names: &'a [String],
    /// The newest generation whose authority all know who ask, and since when.
    pub(crate) published: Option<(u32, Timestamp)>,
    /// So long it takes until what is written has reached all who ask.
    pub(crate) propagation: Duration,
}

/// Certificates begin so long before they are made: the clocks of API servers may be behind ours.
pub(crate) const BEHIND: Duration = Duration::from_secs(3600);

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Make a generation of this number. `at_once`: nothing that is served is good, so that waiting would save nothing.
    Make { number: u32, at_once: bool },
    /// Serve the generation of this number, and forget those that have ended.
    Serve { number: u32 },
    /// Nothing, until then at the latest.
    Wait { until: Timestamp },
}

/// Why what is kept cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadGenerations(String);

/// What is to be done next.
pub(crate) fn step(kept: &Generations, facts: Facts<'_>) -> Step {
    let Facts { now, life, .. } = facts;
    let newest = kept.all.last_key_value();
    let number = newest.map_or(1, |(number, _)| number + 1);
    let Some(served) = kept.all.get(&kept.serving).filter(|it| it.is_valid(now)) else {
        let usable = newest.filter(|(_, it)| it.is_valid(now) && it.names == facts.names);
        return match usable {
            Some((&number, _)) => Step::Serve { number },
            None => Step::Make {
                number,
                at_once: true,
            },
        };
    };
    let next = newest.filter(|(number, it)| **number > kept.serving && it.is_valid(now));
    if let Some((&number, _)) = next {
        return next_step(number, served, facts);
    }
    let due = due(served, life);
    let is_wanted = served.names == facts.names;
    // However often the wishes change, or the clock jumps.
    let earliest = later(served.made, life / 10);
    if now >= due || !is_wanted && now >= earliest {
        return Step::Make {
            number,
            at_once: false,
        };
    }
    Step::Wait {
        until: if is_wanted { due } else { due.min(earliest) },
    }
}

/// The next generation is there: is it known to all?
fn next_step(number: u32, served: &Generation, facts: Facts<'_>) -> Step {
    let known = facts
        .published
        .filter(|(published, _)| *published >= number);
    match known.map(|(_, since)| later(since, facts.propagation)) {
        Some(at) if at <= facts.now => Step::Serve { number },
        Some(at) => Step::Wait { until: at },
        // Whoever writes configurations tells when they know it; where nobody does, the former one is served to its end.
        None => Step::Wait {
            until: served.not_after,
        },
    }
}

/// When a third of the life is left.
fn due(generation: &Generation, life: Duration) -> Timestamp {
    let third = SignedDuration::try_from(life / 3).unwrap_or_default();
    let due = generation.not_after.checked_sub(third);
    due.unwrap_or(generation.made)
}

fn later(from: Timestamp, duration: Duration) -> Timestamp {
    from.checked_add(duration).unwrap_or(Timestamp::MAX)
}

impl Generation {
    /// Whether those who ask take its certificate at that time.
    pub(crate) fn is_valid(&self, now: Timestamp) -> bool {
        later(now, BEHIND) >= self.made && self.not_after > now
    }
}

impl Generations {
    /// The generation that is served.
    pub(crate) fn served(&self) -> Option<&Generation> {
        self.all.get(&self.serving)
    }

    /// The number of the newest one.
    pub(crate) fn newest(&self) -> u32 {
        self.all.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// All authorities whose certificates may be served now, or soon: PEM.
    pub(crate) fn bundle(&self, now: Timestamp) -> String {
        let valid = self.all.values().filter(|it| it.not_after > now);
        valid.map(|it| it.authority.as_str()).collect()
    }

    /// The newest generation whose authority is in a bundle.
    pub(crate) fn newest_in(&self, bundle: &str) -> Option<u32> {
        let known = self.all.iter().rev();
        let mut known = known.filter(|(_, it)| bundle.contains(it.authority.trim()));
        known.next().map(|(number, _)| *number)
    }

    /// With one more.
    pub(crate) fn with(mut self, number: u32, generation: Generation) -> Self {
        self.all.insert(number, generation);
        self
    }

    /// With another one that is served, and without those that have ended.
    pub(crate) fn serving(mut self, number: u32, now: Timestamp) -> Self {
        self.serving = number;
        self.all
            .retain(|it, generation| *it == number || generation.not_after > now);
        self
    }

    /// With the copies that are known of what is spoiled, and without what nobody knows. It may be that nothing is left to be served.
    pub(crate) fn mended(mut self, spoiled: &[u32], known: &Self) -> Self {
        for number in spoiled {
            let found = self.all.remove(number);
            let good = known
                .all
                .get(number)
                .filter(|it| Some(*it) != found.as_ref());
            if let Some(good) = good {
                self.all.insert(*number, good.clone());
            }
        }
        self
    }

    /// As the `data` of a Secret.
    pub(crate) fn to_data(&self) -> Map<String, Value> {
        let mut data = Map::new();
        let mut put = |key: String, text: &str| data.insert(key, STANDARD.encode(text).into());
        put(SERVING.to_owned(), &self.serving.to_string());
        for (number, it) in &self.all {
            let facts = json!({"names": it.names, "made": it.made.to_string(), "notAfter": it.not_after.to_string()});
            put(format!("{number}.json"), &facts.to_string());
            put(format!("{number}.ca.crt"), &it.authority);
            put(format!("{number}.tls.crt"), &it.certificate);
            put(format!("{number}.tls.key"), &it.key);
        }
        data
    }

    /// Out of the `data` of a Secret.
    pub(crate) fn of_data(data: &Value) -> Result<Self, BadGenerations> {
        let text = |key: &str| {
            let encoded = data[key].as_str();
            let encoded = encoded.ok_or_else(|| BadGenerations(format!("`{key}` is missing")))?;
            let bad = || BadGenerations(format!("`{key}` is no text"));
            let bytes = STANDARD.decode(encoded).map_err(|_| bad())?;
            String::from_utf8(bytes).map_err(|_| bad())
        };
        let serving = text(SERVING)?;
        let bad = |key: &str| BadGenerations(format!("`{key}` cannot be read"));
        let mut generations = Self {
            serving: serving.trim().parse().map_err(|_| bad(SERVING))?,
            all: BTreeMap::new(),
        };
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
            return Err(BadGenerations(format!(
                "generation {serving} is served, and is not there"
            )));
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

    /// A generation that was made on that day.
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
        let facts = Facts {
            now: at(day),
            life: LIFE,
            names: &names(),
            published,
            propagation: Duration::from_secs(60),
        };
        step(kept, facts)
    }

    fn one() -> Generations {
        Generations::default()
            .with(1, generation(0))
            .serving(1, at(0))
    }

    #[test]
    fn the_first_generation_is_served_at_once() {
        let make = |number| Step::Make {
            number,
            at_once: true,
        };
        assert_eq!(on(0, &Generations::default(), None), make(1));
        assert_eq!(on(1, &one(), None), Step::Wait { until: at(60) });
        // What has ended serves nobody: AD31.
        assert_eq!(on(90, &one(), None), make(2));
    }

    #[test]
    fn the_next_generation_is_served_once_all_know_it() {
        let make = Step::Make {
            number: 2,
            at_once: false,
        };
        assert_eq!(on(60, &one(), Some((1, at(0)))), make);
        let two = one().with(2, generation(60));
        assert_eq!(
            two.bundle(at(61)),
            "authority of day 0\nauthority of day 60\n"
        );
        assert_eq!(on(61, &two, Some((1, at(0)))), Step::Wait { until: at(90) });
        assert_eq!(on(61, &two, Some((2, at(60)))), Step::Serve { number: 2 });
        let just_now = Step::Wait {
            until: later(at(61), Duration::from_secs(60)),
        };
        assert_eq!(on(61, &two, Some((2, at(61)))), just_now);
        // Whoever still serves the first one is trusted until it ends.
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
        let make = Step::Make {
            number: 2,
            at_once: false,
        };
        assert_eq!(on(9, &kept, None), make);
    }

    #[test]
    fn a_wait_never_ends_in_the_past() {
        let mut kept = one();
        kept.all.get_mut(&1).unwrap().names.clear();
        let two = kept.with(2, generation(9));
        // Nobody tells that its authority is known: the first one is served to its end.
        assert_eq!(on(40, &two, None), Step::Wait { until: at(90) });
    }

    #[test]
    fn what_a_clock_has_made_that_was_ahead_is_replaced_once_it_is_right() {
        let ahead = one().with(2, generation(400)).serving(2, at(400));
        let make = Step::Make {
            number: 3,
            at_once: true,
        };
        assert_eq!(on(1, &ahead, Some((2, at(400)))), make);
        // Certificates begin a little earlier.
        let little = Generation {
            made: later(at(1), BEHIND),
            ..generation(1)
        };
        let little = one().with(2, little).serving(2, at(1));
        assert!(matches!(on(1, &little, None), Step::Wait { .. }));
        // What is served is good, and what is to follow is not yet: it is not served.
        let next = one().with(2, generation(400));
        let wait = Step::Wait { until: at(60) };
        assert_eq!(on(1, &next, Some((2, at(0)))), wait);
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
            ("1.json", "generation 1 is served, and is not there"),
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
    fn what_is_spoiled_is_mended_as_far_as_it_is_known() {
        let good = one().with(2, generation(60));
        let mut spoiled = good.clone();
        for number in [1, 2] {
            spoiled.all.get_mut(&number).unwrap().key = "junk".to_owned();
        }
        assert_eq!(spoiled.clone().mended(&[1, 2], &good), good);
        // Of the next one nothing is known but what is spoiled, and it is made anew.
        let half = good.clone().with(2, spoiled.all[&2].clone());
        assert_eq!(half.clone().mended(&[2], &half), one());
        let nothing = spoiled.mended(&[1, 2], &Generations::default());
        assert_eq!((nothing.served(), nothing.all.len()), (None, 0));
    }
}
