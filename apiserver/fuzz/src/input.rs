//! Generates inputs: mutated samples as bytes or JSON trees, concatenated tokens, repetitions, and random bytes.
//!
//! Guarantees that the same seed gives the same inputs. Must not depend on the purpose of inputs.

use serde_json::Value;

use crate::damage;
use crate::dice::Dice;

/// The maximum length of inputs, except for repetitions and trees.
const LONGEST: usize = 4096;

/// Generates the inputs for one target.
pub(crate) struct Inputs {
    dice: Dice,
    samples: Vec<Vec<u8>>,
    /// The samples that are JSON.
    trees: Vec<Value>,
    tokens: &'static [&'static str],
}

// === impl Inputs ===

impl Inputs {
    pub(crate) fn new(samples: Vec<Vec<u8>>, tokens: &'static [&'static str], seed: u64) -> Self {
        let trees = samples
            .iter()
            .filter_map(|it| serde_json::from_slice(it).ok());
        Self {
            dice: Dice::new(seed),
            trees: trees.collect(),
            samples,
            tokens,
        }
    }

    /// Returns the next input.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let dice = &mut self.dice;
        match dice.below(400) {
            0 => return self.blown_up(),
            1..=20 => return (0..dice.below(64)).map(|_| dice.byte()).collect(),
            21..=60 => {
                let pieces = dice.below(12) + 1;
                let chosen = (0..pieces).filter_map(|_| dice.one(self.tokens));
                return chosen.flat_map(|it| it.bytes()).collect();
            }
            61..=250 if !self.trees.is_empty() => return self.tree(),
            _ => {}
        }
        let mut input = dice.one(&self.samples).cloned().unwrap_or_default();
        for _ in 0..=dice.below(6) {
            damage::bytes(dice, &mut input, &self.samples, self.tokens);
        }
        input.truncate(LONGEST);
        input
    }

    /// Returns a mutated JSON sample.
    fn tree(&mut self) -> Vec<u8> {
        let mut tree = self.dice.one(&self.trees).cloned().unwrap_or_default();
        for _ in 0..=self.dice.below(4) {
            damage::tree(&mut self.dice, &mut tree, &self.trees, self.tokens);
        }
        tree.to_string().into_bytes()
    }

    /// Returns many repetitions of a token, possibly inside a sample, to test recursion limits.
    fn blown_up(&mut self) -> Vec<u8> {
        let dice = &mut self.dice;
        let sample = dice.one(&self.samples).cloned().unwrap_or_default();
        let at = dice.below(sample.len() + 1);
        let token = dice.one(self.tokens).copied().unwrap_or("[").as_bytes();
        let times = [50, 300, 2000, 20_000][dice.below(4)].min((1 << 16) / token.len().max(1));
        [&sample[..at], &token.repeat(times), &sample[at..]].concat()
    }
}
