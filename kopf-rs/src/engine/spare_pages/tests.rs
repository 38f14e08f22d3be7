//! Tests when free pages are returned, and that they are.

use std::cell::Cell;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_burst_is_over_once_no_event_comes_in_or_it_has_lasted_long() {
    let began = Instant::now();
    burst_over(|| 0).await;
    assert_eq!(began.elapsed(), CALM);
    let (began, events) = (Instant::now(), Cell::new(0));
    let one_more = || {
        events.set(events.get() + 1);
        events.get()
    };
    burst_over(one_more).await;
    assert_eq!(began.elapsed(), LONGEST_BURST);
}

#[cfg(all(target_os = "linux", feature = "mimalloc"))]
mod on_mimalloc {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

    /// Tells the child process to do the actual test: other tests of the same process allocate memory, too.
    const ALONE: &str = "KOPF_RS_TEST_SPARE_PAGES";

    #[test]
    fn what_a_burst_has_left_is_given_back() {
        if std::env::var_os(ALONE).is_some() {
            return return_free_memory_and_measure();
        }
        let name = concat!(module_path!(), "::what_a_burst_has_left_is_given_back");
        let (_, name) = name.split_once("::").unwrap();
        let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
        let alone = tests.args(["--exact", name]).env(ALONE, "1").output();
        let said = String::from_utf8(alone.unwrap().stdout).unwrap();
        assert!(said.contains("1 passed"), "{said}");
    }

    fn return_free_memory_and_measure() {
        let kept = burst();
        let before = resident_kib();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(return_free_memory());
        let after = resident_kib();
        assert!(after < before / 2, "{before} KiB, and then {after} KiB");
        drop(kept);
    }

    /// Allocates forty mebibytes in blocks of many sizes, and returns the few blocks that stay.
    fn burst() -> Vec<Vec<u8>> {
        let sizes = [16, 48, 200, 640, 1800, 8192, 20_000].iter().cycle();
        let blocks: Vec<_> = sizes.take(9_000).map(|size| vec![1; *size]).collect();
        let numbered = blocks.into_iter().enumerate();
        let few = numbered.filter(|(number, block)| block.len() == 200 && number % 100 == 2);
        few.map(|(_, block)| block).collect()
    }

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}
