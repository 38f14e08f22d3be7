//! Returns memory pages that a burst of events has left free to the system.
//!
//! mimalloc does not return a free page at once, since it may soon be needed again, but when a further page is freed some time later. An
//! idle operator frees none, so it would keep what a burst has left: a quarter of its memory after 5,000 failing objects. Hence this module
//! allocates a few large blocks after a burst, holds them for a while, and frees them. Other allocators would rather keep memory for more
//! such blocks, so this is only for programs whose allocator is mimalloc, and only for the thread that handles events, because each thread
//! has its own pages. Must not know what the events are.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::engine::queue::Queue;

/// mimalloc returns free memory in the 32 MiB around a block, and puts a block where it fits best. Blocks of doubling sizes therefore lie in
/// different places. They stay untouched, so they take no memory.
const SMALLEST_BLOCK: usize = 128 * 1024;
const BLOCKS: u32 = 8;
/// A freshly allocated block comes from free pages and delays their return: by 10 ms, and by 1 ms for each page that was freed before.
const HELD: Duration = Duration::from_secs(2);
/// mimalloc returns free pages around a block at most every 10 ms.
const BETWEEN_BLOCKS: Duration = Duration::from_millis(20);
/// A burst is over after this time without an event.
const CALM: Duration = Duration::from_secs(1);
/// The limit for one burst, which may otherwise never end.
const LONGEST_BURST: Duration = Duration::from_secs(30);

/// Returns free pages after the start, and after each burst.
pub(super) async fn return_memory_after_bursts(queue: &Queue) -> Infallible {
    loop {
        burst_over(|| queue.events()).await;
        return_free_memory().await;
        queue.many_events().await;
    }
}

/// Waits until no event arrives. `events` returns the number of events so far.
async fn burst_over(events: impl Fn() -> u64) {
    let until = Instant::now() + LONGEST_BURST;
    loop {
        let known = events();
        sleep(CALM).await;
        if events() == known || Instant::now() >= until {
            return;
        }
    }
}

async fn return_free_memory() {
    let block = |nth: u32| {
        let mut block = Vec::<u8>::new();
        // If the system has no memory left, there is nothing to return either.
        block.try_reserve_exact(SMALLEST_BLOCK << nth).ok().map(|()| block)
    };
    let mut blocks: Vec<_> = (0..BLOCKS).map_while(block).collect();
    sleep(HELD).await;
    while let Some(block) = blocks.pop() {
        // Keeps the compiler from removing the unused block.
        drop(std::hint::black_box(block));
        sleep(BETWEEN_BLOCKS).await;
    }
}

#[cfg(test)]
mod tests;
