//! An operator as a process that is killed before and after each of its requests about webhooks, at its start and at its end: what it leaves, the
//! next instance puts right.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use kopf_rs_tests::{Program, TestCluster, say, scenarios};
use serde_json::json;
use tokio::time::sleep;

use super::managing::is_mended;
use super::rolling::{Replica, Service, registry};
use super::{MUTATING, VALIDATING, managed, refusal, stored};
use crate::cli::{self, PATIENCE};
use crate::operating::TestOperator;

scenarios! {
    what_a_killed_process_leaves_is_taken_away_by_the_next_instance [tcp real];
    the_next_instance_in_a_cluster_goes_on_where_a_process_was_killed [real];
}

/// AD28
async fn what_a_killed_process_leaves_is_taken_away_by_the_next_instance(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    kill_around_each_request(&test, "local", async |death| is_mended(&test, death).await).await;
}

/// AD28: with a certificate in a Secret, and configurations that stay.
async fn the_next_instance_in_a_cluster_goes_on_where_a_process_was_killed(cluster: TestCluster) {
    let test = TestOperator::of(cluster).await;
    let service = Service::start(&test).await;
    let server = format!(
        "service:{}/hooks:{}",
        test.cluster.namespace(),
        service.port
    );
    let goes_on = async |death: &str| {
        let next = Replica::start(&test, &service, registry(&test, 1), |_| ()).await;
        let refused = refusal(&test, &json!({"size": 101})).await;
        assert_eq!(refused["code"], 422, "{death}: {refused}");
        let is_blue = |it: &serde_json::Value| it["spec"]["colour"] == "blue";
        stored(&test, &json!({"size": 1}), is_blue).await;
        next.stop(&service).await;
        let name = managed(&test);
        for (kind, name) in [
            (VALIDATING, &*name),
            (MUTATING, &*name),
            ("secrets", "tester-webhook"),
        ] {
            test.cluster.delete(kind, name).await;
        }
    };
    kill_around_each_request(&test, &server, goes_on).await;
}

async fn kill_around_each_request(
    test: &TestOperator,
    server: &str,
    is_followed: impl AsyncFn(&str),
) {
    for moment in ["start", "end"] {
        let mut deaths = 0;
        for request in 1.. {
            let before = deaths;
            for side in ["before", "after"] {
                let death = format!("{moment}, {side} request {request}");
                deaths += usize::from(dies(test, server, &death).await);
                is_followed(&death).await;
            }
            if deaths == before {
                break;
            }
        }
        say(&format!(
            "webhooks: {deaths} kills before and after requests of the {moment}, {server}"
        ));
        // Both configurations are read and written.
        assert!(deaths >= 8, "{moment}: {deaths}");
    }
}

/// Whether there is such a request.
async fn dies(test: &TestOperator, server: &str, death: &str) -> bool {
    let mut command = cli::operator("doomed", &[]);
    command.env("KUBECONFIG", test.cluster.kubeconfig()).envs([
        ("KOPF_RS_ADMISSION_SERVER", server),
        ("KOPF_RS_ADMISSION_MANAGED", &managed(test)),
        ("KOPF_RS_ADMISSION_LISTEN", "127.0.0.1:0"),
        ("KOPF_RS_ADMISSION_PROPAGATION", "500ms"),
        ("KOPF_RS_ADMISSION_SHUTDOWN_GRACE", "100ms"),
        ("DOOM_NAMESPACE", test.cluster.namespace()),
        ("DOOM", death),
    ]);
    let mut program = Program::start(command, PATIENCE);
    let lines = program.lines().clone();
    let both_are_written = async {
        while lines.count(|it| it.contains("is written: 1 webhooks")) < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::select! {
        ended = program.ended() => Some(ended),
        () = both_are_written => None,
    };
    let ended = if let Some(ended) = ended {
        ended
    } else {
        program.signal("TERM").await;
        program.ended().await
    };
    let is_killed = ended.signal() == Some(9);
    assert!(
        is_killed || ended.success(),
        "{death}: {ended}\n{}",
        lines.all().join("\n")
    );
    is_killed
}
