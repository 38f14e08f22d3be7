//! The stop flag: its waiters and its reasons.

use super::*;

fn flag() -> Stopped {
    Stopped::unset(Some(|longest| Box::pin(tokio::time::sleep(longest))))
}

#[test]
fn reasons_add_up_and_are_named() {
    let stopped = flag();
    assert_eq!((stopped.is_set(), stopped.reason()), (false, None));
    stopped.set(StopReason::NONE);
    assert!(!stopped.is_set());
    stopped.set(StopReason::RESOURCE_DELETED);
    stopped.set(StopReason::DAEMON_SIGNALLED);
    let reason = stopped.reason().unwrap();
    assert_eq!(reason.to_string(), "RESOURCE_DELETED|DAEMON_SIGNALLED");
    assert!(reason.contains(StopReason::RESOURCE_DELETED));
    assert!(!reason.contains(StopReason::OPERATOR_EXITING));
}

#[tokio::test(start_paused = true)]
async fn waiters_are_notified_and_no_wait_exceeds_its_limit() {
    let stopped = flag();
    assert!(!stopped.wait_for(Duration::from_secs(60)).await);
    assert!(stopped.0.state.lock().wakers.is_empty(), "nobody waits");
    let (one, other) = (stopped.clone(), stopped.clone());
    let one = tokio::spawn(async move { one.wait().await });
    let other = tokio::spawn(async move { other.wait_for(Duration::from_secs(60)).await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(stopped.0.state.lock().wakers.len(), 2);
    stopped.set(StopReason::OPERATOR_EXITING);
    assert_eq!(one.await.unwrap(), StopReason::OPERATOR_EXITING);
    assert!(other.await.unwrap());
    assert!(stopped.wait_for(Duration::ZERO).await);
}

#[test]
fn a_thread_waits_as_long_as_the_flag_is_not_set() {
    let stopped = flag();
    assert!(!stopped.wait_blocking(Duration::from_millis(1)));
    let other = stopped.clone();
    let thread = std::thread::spawn(move || other.wait_blocking(Duration::MAX));
    stopped.set(StopReason::FILTERS_MISMATCH);
    assert!(thread.join().unwrap());
}
