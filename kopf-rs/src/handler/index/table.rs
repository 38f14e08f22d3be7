//! The table of an index: values by keys, where each value belongs to one object.
//!
//! Each key is stored once, in a numbered slot; a contribution lists the slots of one object. This is pure data. It
//! guarantees that any sequence of replacements leads to the same table as the last replacement of each object alone.
//! If the comparison of keys or the clone of a value panics, the table stays usable: the object may keep surplus
//! values, but its contribution lists all of them, so that they can be removed. To run little user code under the
//! caller's write lock, replacements take precomputed hashes, and return removed keys and values for the caller to drop.
//! This module must not depend on locks, nor on the type of objects.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem;
use std::sync::LazyLock;

use hashbrown::HashTable;

use crate::handler::index::values::Values;

/// Values by keys.
pub(crate) struct Table<K, V> {
    /// The slot numbers, by the hashes of their keys.
    numbers: HashTable<u32>,
    places: Vec<Option<Place<K, V>>>,
    free: Vec<u32>,
}

/// A key with its values.
struct Place<K, V> {
    key: K,
    hash: u64,
    values: Values<V>,
}

/// A key with its hash and a value.
pub(crate) struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
}

/// Keys and values that a change removed. Drop them without holding a lock.
pub(crate) struct Removed<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

/// The contribution of one object to a table: the slots of its keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Contribution {
    One(u32),
    /// None, or several.
    Many(Box<[u32]>),
}

/// A replacement in progress. If it is dropped early, the contribution lists both the former and the new slots of the
/// object.
struct Filling<'a> {
    contribution: &'a mut Contribution,
    numbers: Vec<u32>,
}

// === impl ===

/// Hashes a key. All tables share one hasher, so that the hash can be computed before the table is locked.
fn hash_of<Q: Hash + ?Sized>(key: &Q) -> u64 {
    static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    HASHER.hash_one(key)
}

impl<K: Hash, V> Entry<K, V> {
    pub(crate) fn of((key, value): (K, V)) -> Self {
        let hash = hash_of(&key);
        Self { hash, key, value }
    }
}

impl<K, V> Removed<K, V> {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.values.is_empty()
    }
}

impl<K, V> Table<K, V> {
    pub(crate) fn new() -> Self {
        Self { numbers: HashTable::new(), places: Vec::new(), free: Vec::new() }
    }

    /// Returns the number of keys.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &Values<V>)> {
        let places = self.places.iter().flatten();
        places.map(|place| (&place.key, &place.values))
    }
}

impl<K: Eq + Hash, V> Table<K, V> {
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&Values<V>>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        // `Borrow` guarantees that a key and its borrowed form have equal hashes.
        let is_this = |number: &u32| self.key(*number).is_some_and(|it| it.borrow() == key);
        let number = self.numbers.find(hash_of(key), is_this)?;
        let place = self.places[*number as usize].as_ref()?;
        Some(&place.values)
    }

    fn key(&self, number: u32) -> Option<&K> {
        let place = self.places.get(number as usize)?.as_ref()?;
        Some(&place.key)
    }
}

impl<K: Eq, V: Clone> Table<K, V> {
    /// Replaces all values of the object. If several values have the same key, the last one wins.
    pub(crate) fn replace(
        &mut self,
        object: u64,
        contribution: &mut Contribution,
        entries: Vec<Entry<K, V>>,
    ) -> Removed<K, V> {
        let mut removed = Removed { keys: Vec::new(), values: Vec::new() };
        let mut filling = Filling { contribution, numbers: Vec::with_capacity(entries.len()) };
        for Entry { hash, key, value } in entries {
            let number = self.number_of(hash, key, &mut removed);
            filling.numbers.push(number);
            if let Some(place) = &mut self.places[number as usize] {
                removed.values.extend(place.values.insert(object, value));
            }
        }
        filling.numbers.sort_unstable();
        filling.numbers.dedup();
        for number in filling.contribution.numbers() {
            if filling.numbers.binary_search(number).is_err() {
                self.remove(*number, object, &mut removed);
            }
        }
        *filling.contribution = Contribution::of(&mem::take(&mut filling.numbers));
        removed
    }

    /// Returns the slot of a key; adds one if necessary.
    fn number_of(&mut self, hash: u64, key: K, removed: &mut Removed<K, V>) -> u32 {
        let Self { numbers, places, free } = self;
        let place_at = |number: u32| places[number as usize].as_ref();
        let is_this = |number: &u32| place_at(*number).is_some_and(|place| place.key == key);
        if let Some(number) = numbers.find(hash, is_this) {
            removed.keys.push(key);
            return *number;
        }
        let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let number = free.pop().unwrap_or(next);
        numbers.insert_unique(hash, number, |number| place_at(*number).map_or(0, |place| place.hash));
        let place = Some(Place { key, hash, values: Values::default() });
        if number == next {
            places.push(place);
        } else {
            places[number as usize] = place;
        }
        number
    }

    fn remove(&mut self, number: u32, object: u64, removed: &mut Removed<K, V>) {
        let Some(place) = &mut self.places[number as usize] else {
            return;
        };
        removed.values.extend(place.values.remove(object));
        if !place.values.is_empty() {
            return;
        }
        let hash = place.hash;
        let place = self.places[number as usize].take();
        removed.keys.extend(place.map(|place| place.key));
        if let Ok(entry) = self.numbers.find_entry(hash, |it| *it == number) {
            entry.remove();
        }
        self.free.push(number);
        if self.numbers.is_empty() {
            // Frees the memory of an empty table.
            *self = Self::new();
        }
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if !self.numbers.is_empty() {
            self.numbers.extend(self.contribution.numbers());
            self.numbers.sort_unstable();
            self.numbers.dedup();
            *self.contribution = Contribution::of(&self.numbers);
        }
    }
}

impl Contribution {
    fn of(numbers: &[u32]) -> Self {
        match numbers {
            [one] => Self::One(*one),
            many => Self::Many(many.into()),
        }
    }

    /// Returns whether the contribution has no slots.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers().is_empty()
    }

    fn numbers(&self) -> &[u32] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl Default for Contribution {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;

    type Content = BTreeMap<u8, Vec<(u64, u8)>>;

    fn content(table: &Table<u8, u8>) -> Content {
        let all = table.iter().map(|(key, values)| (*key, listed(values)));
        all.collect()
    }

    fn listed(values: &Values<u8>) -> Vec<(u64, u8)> {
        let values = values.iter();
        values.map(|(object, value)| (object, *value)).collect()
    }

    fn entries<K: Hash, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<Entry<K, V>> {
        pairs.into_iter().map(Entry::of).collect()
    }

    /// Computes the expected table if each object had made only this contribution.
    fn recomputed(objects: &HashMap<u64, BTreeMap<u8, u8>>) -> Content {
        let mut content = Content::new();
        for (object, pairs) in objects {
            for (key, value) in pairs {
                content.entry(*key).or_default().push((*object, *value));
            }
        }
        for values in content.values_mut() {
            values.sort_unstable();
        }
        content
    }

    /// Pseudo-random numbers below a limit, reproducible by seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % sides
        }

        fn small(&mut self, sides: u64) -> u8 {
            u8::try_from(self.roll(sides)).unwrap()
        }
    }

    #[test]
    fn a_table_depends_on_the_last_replacements_only() {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut table = Table::new();
            let mut objects: HashMap<u64, BTreeMap<u8, u8>> = HashMap::new();
            let mut put_in: HashMap<u64, Contribution> = HashMap::new();
            let mut read = Vec::new();
            for _ in 0..100 {
                let object = dice.roll(8);
                let pairs: Vec<_> = (0..dice.roll(4)).map(|_| (dice.small(6), dice.small(100))).collect();
                let contribution = put_in.entry(object).or_default();
                table.replace(object, contribution, entries(pairs.iter().copied()));
                objects.insert(object, pairs.into_iter().collect());
                let expected = recomputed(&objects);
                assert_eq!(content(&table), expected, "seed {seed}");
                assert_eq!(table.len(), expected.len());
                for key in 0..6 {
                    let found = table.get(&key).map(listed);
                    assert_eq!(found.as_ref(), expected.get(&key), "seed {seed}");
                }
                if dice.roll(3) == 0 {
                    read.extend(table.get(&dice.small(6)).map(|it| (it.clone(), listed(it))));
                }
            }
            assert!(read.iter().all(|(now, then)| listed(now) == *then), "seed {seed}");
            for (object, contribution) in &mut put_in {
                table.replace(*object, contribution, Vec::new());
                assert!(contribution.is_empty());
            }
            assert_eq!((table.len(), table.places.capacity()), (0, 0));
        }
    }

    #[test]
    fn a_key_with_one_value_takes_few_bytes() {
        assert!(size_of::<Option<Place<String, String>>>() <= 40);
        assert!(size_of::<Contribution>() <= 16);
    }

    /// A key whose comparison panics if both sides are 9.
    #[derive(Clone, Copy)]
    struct Odd(u8);

    impl Hash for Odd {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            state.write_u8(self.0);
        }
    }

    impl PartialEq for Odd {
        fn eq(&self, other: &Self) -> bool {
            assert!((self.0, other.0) != (9, 9), "they cannot be compared");
            self.0 == other.0
        }
    }

    impl Eq for Odd {}

    #[test]
    fn entries_of_a_panicked_replacement_can_be_removed() {
        let mut table = Table::new();
        let (mut first, mut second) = (Contribution::default(), Contribution::default());
        table.replace(1, &mut first, entries([(Odd(9), 1)]));
        let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let all = [(Odd(1), 1), (Odd(2), 2), (Odd(9), 3)];
            table.replace(2, &mut second, entries(all));
        }));
        assert!(replaced.is_err());
        assert_eq!(table.len(), 3);
        assert_eq!(second.numbers().len(), 2);
        let removed = table.replace(2, &mut second, Vec::new());
        assert_eq!((removed.keys.len(), removed.values), (2, vec![1, 2]));
        assert!(second.is_empty());
        assert_eq!(table.len(), 1);
    }
}
