//! The table of an index: values by keys, each value with the object that has put it in.
//!
//! Each key is stored once, at a place that has a number; what an object has put in is known by these numbers. Pure data: promises that after
//! any sequence of replacements the table is what the last ones make by themselves. Must not know locks, nor what an object is.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use hashbrown::HashTable;

/// The values under one key, in the order of the objects. Shared with those who have read them: then a change makes a copy.
pub(crate) type Values<V> = Arc<Vec<(u64, V)>>;

/// Values by keys.
pub(crate) struct Table<K, V> {
    hasher: RandomState,
    /// The numbers of the places, by the hashes of their keys.
    numbers: HashTable<u32>,
    places: Vec<Option<Place<K, V>>>,
    free: Vec<u32>,
}

/// A key that has values.
struct Place<K, V> {
    key: K,
    values: Values<V>,
}

/// What one object has put into a table: the places of its keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Contribution {
    One(u32),
    /// None, or several.
    Many(Box<[u32]>),
}

// === impl ===

impl<K, V> Table<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            hasher: RandomState::new(),
            numbers: HashTable::new(),
            places: Vec::new(),
            free: Vec::new(),
        }
    }

    /// How many keys there are.
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
        // Keys and what they are borrowed as have equal hashes.
        let hash = self.hasher.hash_one(key);
        let is_this = |number: &u32| self.key(*number).is_some_and(|it| it.borrow() == key);
        let number = self.numbers.find(hash, is_this)?;
        let place = self.places[*number as usize].as_ref()?;
        Some(&place.values)
    }

    fn key(&self, number: u32) -> Option<&K> {
        let place = self.places.get(number as usize)?.as_ref()?;
        Some(&place.key)
    }
}

impl<K: Eq + Hash, V: Clone> Table<K, V> {
    /// Put these values in, in place of all that the object has put in before. Of several values under one key, the last one counts.
    pub(crate) fn replace(
        &mut self,
        object: u64,
        contribution: &mut Contribution,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        let mut numbers = Vec::new();
        for (key, value) in pairs {
            let number = self.number_of(key);
            self.put(number, object, value);
            numbers.push(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        for number in contribution.numbers() {
            if numbers.binary_search(number).is_err() {
                self.remove(*number, object);
            }
        }
        *contribution = Contribution::of(&numbers);
    }

    /// The place of a key, which may be a new one.
    fn number_of(&mut self, key: K) -> u32 {
        let Self {
            hasher,
            numbers,
            places,
            free,
        } = self;
        let key_at = |number: u32| places[number as usize].as_ref().map(|place| &place.key);
        let hash = hasher.hash_one(&key);
        let is_this = |number: &u32| key_at(*number) == Some(&key);
        if let Some(number) = numbers.find(hash, is_this) {
            return *number;
        }
        let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let number = free.pop().unwrap_or(next);
        numbers.insert_unique(hash, number, |number| {
            key_at(*number).map_or(0, |key| hasher.hash_one(key))
        });
        let values = Arc::new(Vec::with_capacity(1));
        let place = Some(Place { key, values });
        if number == next {
            places.push(place);
        } else {
            places[number as usize] = place;
        }
        number
    }

    fn put(&mut self, number: u32, object: u64, value: V) {
        let Some(place) = &mut self.places[number as usize] else {
            return;
        };
        let values = Arc::make_mut(&mut place.values);
        // Objects are numbered as they come: most are the last ones.
        match values.binary_search_by_key(&object, |(object, _)| *object) {
            Ok(at) => values[at].1 = value,
            Err(at) => values.insert(at, (object, value)),
        }
    }

    fn remove(&mut self, number: u32, object: u64) {
        let Some(place) = &mut self.places[number as usize] else {
            return;
        };
        let is_last = place.values.iter().all(|(other, _)| *other == object);
        if !is_last {
            let values = Arc::make_mut(&mut place.values);
            values.retain(|(other, _)| *other != object);
            if values.len() < values.capacity() / 4 {
                values.shrink_to(values.len() * 2);
            }
            return;
        }
        let hash = self.hasher.hash_one(&place.key);
        self.places[number as usize] = None;
        if let Ok(entry) = self.numbers.find_entry(hash, |it| *it == number) {
            entry.remove();
        }
        self.free.push(number);
        if self.numbers.is_empty() {
            // Nothing is left: neither is the room.
            *self = Self::new();
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

    /// Whether it is nothing.
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
        let all = table.iter().map(|(key, values)| (*key, values.to_vec()));
        all.collect()
    }

    /// What is in the table where each object has put in this, and nothing else was ever done.
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

    /// Numbers below a limit, the same for the same seed.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % sides
        }

        fn small(&mut self, sides: u64) -> u8 {
            u8::try_from(self.roll(sides)).unwrap()
        }
    }

    #[test]
    fn after_any_replacements_a_table_is_what_the_last_ones_make() {
        for seed in 0..200 {
            let mut dice = Dice(seed);
            let mut table = Table::new();
            let mut objects: HashMap<u64, BTreeMap<u8, u8>> = HashMap::new();
            let mut put_in: HashMap<u64, Contribution> = HashMap::new();
            let mut read = Vec::new();
            for _ in 0..100 {
                let object = dice.roll(8);
                let pairs: Vec<_> = (0..dice.roll(4))
                    .map(|_| (dice.small(6), dice.small(100)))
                    .collect();
                let contribution = put_in.entry(object).or_default();
                table.replace(object, contribution, pairs.iter().copied());
                objects.insert(object, pairs.into_iter().collect());
                let expected = recomputed(&objects);
                assert_eq!(content(&table), expected, "seed {seed}");
                assert_eq!(table.len(), expected.len());
                for key in 0..6 {
                    let found = table.get(&key).map(|it| it.to_vec());
                    assert_eq!(found.as_ref(), expected.get(&key), "seed {seed}");
                }
                if dice.roll(3) == 0 {
                    read.extend(
                        table
                            .get(&dice.small(6))
                            .map(|it| (it.clone(), it.to_vec())),
                    );
                }
            }
            assert!(read.iter().all(|(now, then)| **now == *then), "seed {seed}");
            for (object, contribution) in &mut put_in {
                table.replace(*object, contribution, []);
                assert!(contribution.is_empty());
            }
            assert_eq!((table.len(), table.places.capacity()), (0, 0));
        }
    }

    #[test]
    fn a_key_with_one_value_takes_few_bytes() {
        assert!(size_of::<Option<Place<String, String>>>() <= 32);
        assert!(size_of::<Contribution>() <= 16);
        let mut table = Table::new();
        table.replace(1, &mut Contribution::default(), [("a", 1)]);
        assert_eq!(table.get("a").map(|it| it.capacity()), Some(1));
    }
}
