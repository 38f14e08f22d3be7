//! Inputs: samples that were damaged, put together from pieces, blown up, or nothing but noise.
//!
//! Promise: the same dice make the same inputs. Must not know what the inputs are for.

/// The longest input, but for those that are blown up.
const LONGEST: usize = 4096;
/// Bytes at which programs like to stumble.
const ODD: &[u8] = b"\x00\x01\x7f\x80\xff\"\\/{}[]:,.-+eE0 \n\t%&=";

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

// === impl Dice ===

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        // SplitMix64: <https://prng.di.unimi.it/splitmix64.c>
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another one; 0 if that is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    fn one<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> Option<&'a T> {
        (!of.is_empty()).then(|| of[self.below(of.len())])
    }
}

/// The next input.
pub(super) fn input(dice: &mut Dice, samples: &[&[u8]], tokens: &[&str]) -> Vec<u8> {
    match dice.below(400) {
        0 => return blown_up(dice, samples, tokens),
        1..=20 => return (0..dice.below(64)).map(|_| dice.byte()).collect(),
        21..=60 => {
            let pieces = dice.below(12) + 1;
            let chosen = (0..pieces).filter_map(|_| dice.one(tokens));
            return chosen.flat_map(str::bytes).collect();
        }
        _ => {}
    }
    let mut input = dice.one(samples).unwrap_or_default().to_vec();
    for _ in 0..=dice.below(6) {
        damage(dice, &mut input, samples, tokens);
    }
    input.truncate(LONGEST);
    input
}

/// Something again and again, perhaps in the middle of a sample: for whatever calls itself.
fn blown_up(dice: &mut Dice, samples: &[&[u8]], tokens: &[&str]) -> Vec<u8> {
    let sample = dice.one(samples).unwrap_or_default();
    let at = dice.below(sample.len() + 1);
    let token = dice.one(tokens).unwrap_or("[").as_bytes();
    let times = [50, 300, 2000, 20_000][dice.below(4)].min((1 << 16) / token.len().max(1));
    [&sample[..at], &token.repeat(times), &sample[at..]].concat()
}

fn damage(dice: &mut Dice, input: &mut Vec<u8>, samples: &[&[u8]], tokens: &[&str]) {
    let at = dice.below(input.len() + 1);
    let end = at + dice.below((input.len() - at).min(32) + 1);
    match dice.below(9) {
        0 if at < input.len() => input[at] ^= 1 << dice.below(8),
        1 if at < input.len() => input[at] = ODD[dice.below(ODD.len())],
        2 => drop(input.drain(at..end)),
        3 => {
            let again = input[at..end].to_vec();
            input.splice(end..end, again);
        }
        4 => {
            let moved: Vec<u8> = input.drain(at..end).collect();
            let to = dice.below(input.len() + 1);
            input.splice(to..to, moved);
        }
        5 => {
            let other = dice.one(samples).unwrap_or_default();
            let (from, many) = (dice.below(other.len() + 1), dice.below(64));
            let part = other[from..].iter().take(many).copied();
            input.splice(at..end, part.collect::<Vec<u8>>());
        }
        6 => input.truncate(at.max(1)),
        7 => {
            let many = dice.below(4) + 1;
            let noise: Vec<u8> = (0..many).map(|_| dice.byte()).collect();
            input.splice(at..at, noise);
        }
        _ => {
            let token = dice.one(tokens).unwrap_or_default();
            input.splice(at..end, token.bytes());
        }
    }
}
