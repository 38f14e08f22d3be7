//! Writes changes of the operator's state into a patch, as much as the object has room for.
//!
//! This module guarantees that our annotations never make the object too large. It does not know why state is stored
//! or removed.

use crate::object::body::Body;
use crate::object::patch::Patch;
use crate::state::budget;
use crate::state::diffbase::{Kept, KnownEssence};
use crate::state::progress::Record;
use crate::state::{NotKept, Persistence};

/// The requested changes.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    /// Handlers whose records are removed before others are stored.
    pub(crate) removed: Vec<&'a str>,
    pub(crate) stored: Vec<(&'a str, &'a Record)>,
    pub(crate) target: TargetChange,
    pub(crate) last_handled: Option<&'a KnownEssence>,
}

/// The change of the cycle's target.
#[derive(Clone, Debug, Default)]
pub(crate) enum TargetChange {
    /// Leaves the target unchanged.
    #[default]
    Keep,
    Remove,
    Store(KnownEssence),
}

/// The result of writing changes.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) patch: Patch,
    /// True if all records were stored.
    pub(crate) keeps_records: bool,
    /// True if the last-handled state was stored as requested.
    pub(crate) keeps_last_handled: bool,
    pub(crate) troubles: Vec<WriteTrouble>,
}

/// The reason why a change was not written completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteTrouble {
    /// A storage has failed to store a value.
    NotKept(NotKept),
    /// A storage has failed to remove a value.
    NotRemoved(NotKept),
    /// The last-handled state is too large for an annotation, with this many bytes.
    LastHandledTooLarge { bytes: usize },
    /// The annotations would take this many bytes: progress is kept in a short form, or in memory only.
    NoRoom { bytes: usize, only_memory: bool },
}

/// The form in which state is written to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    Plenty,
    /// Digests instead of essences.
    Digest,
    /// Digests instead of essences, and shortened messages.
    Short,
    /// No writes at all: state stays in memory. Removals still happen.
    None,
}

impl Persistence {
    /// Adds the changes to the handlers' patch `wanted`, in the largest form that the object has room for.
    pub(crate) fn write(&self, changes: &Changes<'_>, wanted: &Patch, body: &Body) -> Written {
        let takes_digests = self.essence.takes_digests();
        let rooms = [Room::Plenty, Room::Digest, Room::Short];
        let mut rooms = rooms.into_iter().take(if takes_digests { 3 } else { 1 });
        let mut most = 0;
        loop {
            let room = rooms.next().unwrap_or(Room::None);
            let mut written = self.write_into(room, changes, wanted, body);
            let bytes = budget::annotations_after(body, &written.patch);
            if bytes > budget::LIMIT && room != Room::None {
                most = most.max(bytes);
                continue;
            }
            let loses_records = room == Room::None && !changes.stored.is_empty();
            if room != Room::Plenty && (loses_records || changes.last_handled.is_some()) {
                written.troubles.push(WriteTrouble::NoRoom { bytes: most, only_memory: room == Room::None });
            }
            return written;
        }
    }

    fn write_into(&self, room: Room, changes: &Changes<'_>, wanted: &Patch, body: &Body) -> Written {
        let mut patch = wanted.clone();
        let mut troubles = Vec::new();
        let removed = changes.removed.iter();
        let removed = removed.map(|id| self.progress.purge(id, body, &mut patch));
        troubles.extend(removed.filter_map(Result::err).map(WriteTrouble::NotRemoved));
        match &changes.target {
            TargetChange::Remove => self.progress.purge_target(body, &mut patch),
            TargetChange::Store(target) if room == Room::Plenty => {
                self.progress.store_target(target, body, &mut patch);
            }
            TargetChange::Store(target) if room != Room::None => {
                self.progress.store_target(&target.reduced(), body, &mut patch);
            }
            // The existing target stays beside the records that stay.
            TargetChange::Store(_) | TargetChange::Keep => {}
        }
        let mut written = Written {
            patch,
            keeps_records: room != Room::None,
            keeps_last_handled: room != Room::None,
            troubles,
        };
        if room != Room::None {
            let kept = match &changes.target {
                TargetChange::Store(KnownEssence::Whole(target)) if room == Room::Plenty => Some(target),
                _ => None,
            };
            for (id, record) in &changes.stored {
                let spelled = (room < Room::Short).then(|| record.spelled(kept)).flatten();
                let record = spelled.as_ref().unwrap_or(record);
                self.store_record((id, record), room, body, &mut written);
            }
            if let Some(last) = changes.last_handled {
                self.store_last_handled(last, room, body, &mut written);
            }
        }
        written
    }

    fn store_record(&self, (id, record): (&str, &Record), room: Room, body: &Body, written: &mut Written) {
        let short = (room >= Room::Short).then(|| record.in_short()).flatten();
        let record = short.as_ref().unwrap_or(record);
        if let Err(failed) = self.progress.store(id, record, body, &mut written.patch) {
            written.keeps_records = false;
            written.troubles.push(WriteTrouble::NotKept(failed));
        }
    }

    fn store_last_handled(&self, last: &KnownEssence, room: Room, body: &Body, written: &mut Written) {
        let reduced = (room != Room::Plenty).then(|| last.reduced());
        let last = reduced.as_ref().unwrap_or(last);
        match self.essence.store(last, body, &mut written.patch) {
            Ok(Kept::Whole) => {}
            Ok(Kept::Digest { bytes }) => {
                let trouble = WriteTrouble::LastHandledTooLarge { bytes };
                written.troubles.push(trouble);
            }
            Err(failed) => {
                written.keeps_last_handled = false;
                written.troubles.push(WriteTrouble::NotKept(failed));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::object::essence::Essence;
    use crate::state::storage::{DiffBaseStorage, StorageError};

    const RECORD: &str = r#"{"started":"2026-01-01T00:00:00Z"}"#;
    const ESSENCE: usize = 3_000;
    const MESSAGE: usize = 2_000;

    /// A storage that cannot store digests.
    struct Elsewhere;

    impl DiffBaseStorage for Elsewhere {
        fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
            Ok(None)
        }
        fn store(&self, _: &Value, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
            Ok(())
        }
    }

    fn record() -> Record {
        let message = Some("m".repeat(MESSAGE));
        let record = Record::from_json(RECORD).unwrap();
        Record { message, ..record }
    }

    fn essence() -> KnownEssence {
        KnownEssence::Whole(Essence::from(json!({"spec": "e".repeat(ESSENCE)})))
    }

    /// Writes the end of a cycle that leaves a mark, to an object with this many free bytes in its annotations.
    fn end(persistence: &Persistence, left: usize) -> Written {
        let filler = "x".repeat(budget::LIMIT - "filler".len() - "o.kopf.rs/old".len() - 2 - left);
        let annotations = json!({"filler": filler, "o.kopf.rs/old": "{}"});
        let body = Body::new(json!({"metadata": {"annotations": annotations}}));
        let (record, last) = (record(), essence());
        let changes = Changes {
            removed: vec!["old"],
            stored: vec![("new", &record)],
            target: TargetChange::Remove,
            last_handled: Some(&last),
        };
        let written = persistence.write(&changes, &Patch::new(), &body);
        assert!(budget::annotations_after(&body, &written.patch) <= budget::LIMIT);
        let old = ["metadata", "annotations", "o.kopf.rs/old"];
        assert_eq!(written.patch.get(&old), Some(&Value::Null), "{left}");
        written
    }

    fn size(written: &Written, name: &str) -> Option<usize> {
        let name = format!("o.kopf.rs/{name}");
        let value = written.patch.get(&["metadata", "annotations", &name])?;
        value.as_str().map(str::len)
    }

    #[test]
    fn state_without_room_is_shortened_or_kept_in_memory() {
        let persistence = Persistence::named("o");
        let whole = end(&persistence, 10_000);
        assert!(whole.keeps_records && whole.keeps_last_handled && whole.troubles.is_empty());
        assert!(size(&whole, "last-handled-configuration").unwrap() > ESSENCE);
        for (left, longest_record) in [(4_000, MESSAGE + 500), (1_000, 500)] {
            let written = end(&persistence, left);
            assert!(written.keeps_records && written.keeps_last_handled, "{left}");
            assert!(size(&written, "last-handled-configuration").unwrap() < 200, "{left}");
            assert!(size(&written, "new").unwrap() < longest_record, "{left}");
            let [WriteTrouble::NoRoom { bytes, only_memory: false }] = written.troubles[..] else {
                panic!("{left}: {:?}", written.troubles);
            };
            assert!(bytes > budget::LIMIT + ESSENCE + MESSAGE - left, "{left}");
        }
        let nothing = end(&persistence, 50);
        assert!(!nothing.keeps_records && !nothing.keeps_last_handled);
        assert_eq!(size(&nothing, "new"), None);
        let [WriteTrouble::NoRoom { only_memory, .. }] = nothing.troubles[..] else {
            panic!("{:?}", nothing.troubles);
        };
        assert!(only_memory);
    }

    #[test]
    fn state_is_not_shortened_for_a_storage_without_digests() {
        let persistence = Persistence::named("o").diff_base(Elsewhere);
        assert!(end(&persistence, 4_000).keeps_records);
        let nothing = end(&persistence, 1_000);
        assert!(!nothing.keeps_records && !nothing.keeps_last_handled);
    }

    #[test]
    fn missing_room_is_reported_only_if_handlers_lose_something() {
        let filler = "x".repeat(budget::LIMIT - 1_000);
        let body = Body::new(json!({"metadata": {"annotations": {"filler": filler}}}));
        let record = Record::from_json(RECORD).unwrap();
        let changes = Changes {
            stored: vec![("new", &record)],
            target: TargetChange::Store(essence()),
            ..Changes::default()
        };
        let written = Persistence::named("o").write(&changes, &Patch::new(), &body);
        assert!(written.keeps_records);
        assert_eq!(written.troubles, []);
    }

    #[test]
    fn a_target_that_has_no_room_stays_as_it_was() {
        let (persistence, body) = (Persistence::named("o"), Body::new(json!({})));
        for (room, expected) in [(Room::Plenty, Some(true)), (Room::Digest, Some(false)), (Room::None, None)]
        {
            let changes = Changes { target: TargetChange::Store(essence()), ..Changes::default() };
            let written = persistence.write_into(room, &changes, &Patch::new(), &body);
            let after = written.patch.get(&["metadata", "annotations"]);
            let after = Body::new(json!({"metadata": {"annotations": after}}));
            let target = persistence.progress.fetch_target(&after).unwrap();
            let is_whole = target.map(|it| matches!(it, KnownEssence::Whole(_)));
            assert_eq!(is_whole, expected, "{room:?}");
        }
    }
}
