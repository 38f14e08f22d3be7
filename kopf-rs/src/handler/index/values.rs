//! The values under one key, in the order of their objects: a persistent tree that shares nodes with its snapshots.
//!
//! Taking a snapshot clones one pointer. A change copies at most the nodes on one path, regardless of the number of
//! objects and of snapshots. If the clone of a value panics, the tree stays unchanged. This module must not depend on
//! keys.

use std::mem;
use std::sync::Arc;

/// The maximum number of values or children of a node.
const WIDTH: usize = 32;

/// A set of values, one per object. Clones share their common nodes.
pub(crate) struct Values<V>(Option<Arc<Node<V>>>);

#[derive(Clone)]
enum Node<V> {
    Leaf(Vec<(u64, V)>),
    Branch(Vec<Child<V>>),
}

#[derive(Clone)]
struct Child<V> {
    /// A lower bound: no object in this node or the following ones has a smaller number.
    first: u64,
    len: usize,
    node: Arc<Node<V>>,
}

/// Iterator over [`Values`].
pub(crate) struct ValuesIter<'a, V> {
    /// The remaining branches on the path to the current leaf.
    above: Vec<std::slice::Iter<'a, Child<V>>>,
    leaf: std::slice::Iter<'a, (u64, V)>,
    left: usize,
}

/// The result of inserting a value.
enum Put<V> {
    /// The value replaced this one.
    Replaced(V),
    Added,
    /// The value was added and the node was split; this is its second half.
    Split(Child<V>),
}

// === impl Values ===

impl<V> Values<V> {
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |root| root.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn iter(&self) -> ValuesIter<'_, V> {
        let mut iter = ValuesIter { above: Vec::new(), leaf: [].iter(), left: self.len() };
        if let Some(root) = &self.0 {
            iter.descend(root);
        }
        iter
    }
}

impl<V: Clone> Values<V> {
    /// Inserts the value of an object; returns its former value.
    pub(crate) fn insert(&mut self, object: u64, value: V) -> Option<V> {
        let Some(root) = &mut self.0 else {
            self.0 = Some(Arc::new(Node::Leaf(vec![(object, value)])));
            return None;
        };
        match insert(root, object, value) {
            Put::Replaced(former) => Some(former),
            Put::Added => None,
            Put::Split(second) => {
                let first = Child { first: 0, len: root.len(), node: root.clone() };
                *root = Arc::new(Node::Branch(vec![first, second]));
                None
            }
        }
    }

    /// Removes the value of an object.
    pub(crate) fn remove(&mut self, object: u64) -> Option<V> {
        let root = self.0.as_mut()?;
        let removed = remove(root, object)?;
        if root.is_empty() {
            self.0 = None;
            return Some(removed);
        }
        while let Node::Branch(children) = &**root
            && let [only] = &**children
        {
            *root = only.node.clone();
        }
        Some(removed)
    }
}

impl<V> Clone for Values<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Default for Values<V> {
    fn default() -> Self {
        Self(None)
    }
}

// === impl Node ===

impl<V> Node<V> {
    fn len(&self) -> usize {
        match self {
            Self::Leaf(values) => values.len(),
            Self::Branch(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Leaf(values) => values.is_empty(),
            Self::Branch(children) => children.is_empty(),
        }
    }
}

/// Returns the only child that can contain the object.
fn place<V>(children: &[Child<V>], object: u64) -> usize {
    let behind = children.partition_point(|child| child.first <= object);
    behind.saturating_sub(1)
}

fn insert<V: Clone>(node: &mut Arc<Node<V>>, object: u64, value: V) -> Put<V> {
    match Arc::make_mut(node) {
        Node::Leaf(values) => match values.binary_search_by_key(&object, |(it, _)| *it) {
            Ok(at) => Put::Replaced(mem::replace(&mut values[at].1, value)),
            Err(at) => put_in(values, at, (object, value)).map_or(Put::Added, |second| {
                Put::Split(Child {
                    first: second.first().map_or(object, |(first, _)| *first),
                    len: second.len(),
                    node: Arc::new(Node::Leaf(second)),
                })
            }),
        },
        Node::Branch(children) => {
            let at = place(children, object);
            let child = &mut children[at];
            let second = match insert(&mut child.node, object, value) {
                Put::Replaced(former) => return Put::Replaced(former),
                Put::Added => {
                    child.len += 1;
                    return Put::Added;
                }
                Put::Split(second) => second,
            };
            child.len = child.len + 1 - second.len;
            put_in(children, at + 1, second).map_or(Put::Added, |second| {
                Put::Split(Child {
                    first: second.first().map_or(object, |child| child.first),
                    len: second.iter().map(|child| child.len).sum(),
                    node: Arc::new(Node::Branch(second)),
                })
            })
        }
    }
}

/// Inserts an item into a node. A full node is split, and its second half is returned. Objects are numbered in order
/// of arrival, so after an append, nothing will be inserted before it: the split then leaves the first node full.
fn put_in<T>(all: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if all.len() < WIDTH {
        all.insert(at, item);
        return None;
    }
    let half = if at == all.len() { at } else { WIDTH / 2 };
    let mut second = all.split_off(half);
    if at <= half && !second.is_empty() {
        all.insert(at, item);
    } else {
        second.insert(at - half, item);
    }
    Some(second)
}

fn remove<V: Clone>(node: &mut Arc<Node<V>>, object: u64) -> Option<V> {
    if let Node::Leaf(values) = &**node {
        let at = values.binary_search_by_key(&object, |(it, _)| *it).ok()?;
        let Node::Leaf(values) = Arc::make_mut(node) else {
            return None;
        };
        let (_, value) = values.remove(at);
        if values.len() < values.capacity() / 4 {
            values.shrink_to(values.len() * 2);
        }
        return Some(value);
    }
    let Node::Branch(children) = Arc::make_mut(node) else {
        return None;
    };
    let at = place(children, object);
    let child = children.get_mut(at)?;
    let value = remove(&mut child.node, object)?;
    child.len -= 1;
    if child.len == 0 {
        children.remove(at);
    }
    Some(value)
}

// === impl ValuesIter ===

impl<'a, V> ValuesIter<'a, V> {
    /// Descends to the first leaf of a node.
    fn descend(&mut self, mut node: &'a Node<V>) {
        loop {
            match node {
                Node::Leaf(values) => {
                    self.leaf = values.iter();
                    return;
                }
                Node::Branch(children) => {
                    let mut children = children.iter();
                    let Some(first) = children.next() else {
                        return;
                    };
                    self.above.push(children);
                    node = &first.node;
                }
            }
        }
    }
}

impl<'a, V> Iterator for ValuesIter<'a, V> {
    type Item = (u64, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((object, value)) = self.leaf.next() {
                self.left -= 1;
                return Some((*object, value));
            }
            match self.above.last_mut()?.next() {
                Some(child) => self.descend(&child.node),
                None => {
                    self.above.pop();
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<V> ExactSizeIterator for ValuesIter<'_, V> {}

impl<V> Clone for ValuesIter<'_, V> {
    fn clone(&self) -> Self {
        Self { above: self.above.clone(), leaf: self.leaf.clone(), left: self.left }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn content(values: &Values<u64>) -> Vec<(u64, u64)> {
        let iter = values.iter();
        assert_eq!(iter.len(), values.len());
        iter.map(|(object, value)| (object, *value)).collect()
    }

    fn next(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn the_last_values_count_and_snapshots_stay_unchanged() {
        for mut seed in 0..20 {
            let (mut values, mut expected) = (Values::default(), BTreeMap::new());
            let mut read = Vec::new();
            for step in 0..4000 {
                let object = next(&mut seed) % 700;
                // The tree grows first, then shrinks.
                if next(&mut seed) % 8 < if step < 2000 { 6 } else { 2 } {
                    assert_eq!(values.insert(object, step), expected.insert(object, step));
                } else {
                    assert_eq!(values.remove(object), expected.remove(&object));
                }
                if step % 500 == 0 {
                    read.push((values.clone(), content(&values)));
                }
            }
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(content(&values), expected);
            assert!(read.iter().all(|(now, then)| content(now) == *then));
        }
    }

    #[test]
    fn ordered_inserts_fill_their_nodes() {
        let mut values = Values::default();
        for object in 0..1024 {
            values.insert(object, object);
        }
        let Some(Node::Branch(children)) = values.0.as_deref() else {
            panic!("one node holds less");
        };
        assert_eq!(children.len(), 32);
        assert!(children.iter().all(|child| child.len == WIDTH));
        for object in 0..1024 {
            assert_eq!(values.remove(object), Some(object));
        }
        assert!(values.is_empty());
    }
}
