//! Pages of memory that a burst of events leaves free go back to the system.
//!
//! mimalloc does not give a free page back at once, for it may soon be needed again: it does so when a further page is freed some time
//! later. An operator at rest frees none, and would keep what a burst has left: a quarter of its memory after 5,000 failing objects.
//! So a few large blocks are allocated after the burst, held for a while, and freed. Other allocators would rather keep memory for more
//! such blocks, so this is for programs whose allocator is mimalloc, and on the thread that handles events: each thread has pages of its
//! own. Must not know what the events are.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::engine::queue::Queue;

/// mimalloc gives back what is free in the 32 MiB around a block, and puts a block where it fits best: blocks of each size, doubled each
/// time, lie in different places. Nothing is written into them, so they take no memory.
const SMALLEST_BLOCK: usize = 128 * 1024;
const BLOCKS: u32 = 8;
/// Blocks that are just allocated are among the free pages, and put off that these are given back: by 10 ms, and 1 ms for each page
/// that was freed before.
const HELD: Duration = Duration::from_secs(2);
/// Free pages around a block are given back every 10 ms at most.
const BETWEEN_BLOCKS: Duration = Duration::from_millis(20);
/// Without an event for so long, a burst is over.
const CALM: Duration = Duration::from_secs(1);
/// A burst may go on for ever.
const LONGEST_BURST: Duration = Duration::from_secs(30);

/// Give free pages back after the start, and after each burst.
pub(super) async fn give_back_after_bursts(queue: &Queue) -> Infallible {
    loop {
        burst_over(|| queue.events()).await;
        give_back().await;
        queue.many_events().await;
    }
}

/// Wait until no event comes in, by their number so far.
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

async fn give_back() {
    let block = |nth: u32| {
        let mut block = Vec::<u8>::new();
        // Where the system has no more memory, there is nothing to give back either.
        block
            .try_reserve_exact(SMALLEST_BLOCK << nth)
            .ok()
            .map(|()| block)
    };
    let mut blocks: Vec<_> = (0..BLOCKS).map_while(block).collect();
    sleep(HELD).await;
    while let Some(block) = blocks.pop() {
        // Else the compiler may see that nobody needs it.
        drop(std::hint::black_box(block));
        sleep(BETWEEN_BLOCKS).await;
    }
}

#[cfg(test)]
mod tests;
