//! `kopf-rs new` and `kopf-rs add`: creates and extends operators, and runs the commands that are printed.
//!
//! The operators use the versions and the profile of this repository, and share one build of kopf-rs.

use std::path::Path;

use super::{Ended, ended, kopf_rs};
use crate::readme::{Away, shell};

/// Creates an operator; returns the commands that are printed for the user.
pub(super) async fn created(folder: &Away, args: &[&str]) -> String {
    let mut command = kopf_rs(&[&["new"], args].concat());
    command.current_dir(&folder.0);
    let created = ended(command).await;
    created.with(0, &["Created "]);
    assert!(!created.said.contains("warning"), "{}", created.said);
    let printed: Vec<_> = created.said.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert!(printed.len() > 1, "{}", created.said);
    printed.join("\n")
}

/// Runs the printed commands; returns their output.
async fn tried(folder: &Away, commands: &str) -> String {
    // The shell prints both commands of a pipe at the same time, so the printed commands are checked instead.
    assert!(commands.contains("kopf-rs run "), "{commands}");
    let tried = shelled(folder, commands).await;
    tried.with(0, &["succeeded."]);
    assert!(!tried.said.contains("warning"), "{}", tried.said);
    tried.said
}

/// Runs commands in the folder, with `kopf-rs` in the path.
pub(super) async fn shelled(folder: &Away, commands: &str) -> Ended {
    let kopf_rs = kopf_rs(&[]);
    let programs = Path::new(kopf_rs.get_program()).parent().expect("a program is in a folder");
    let path = std::env::var("PATH").expect("a PATH");
    let mut command = shell(&format!("set -ex\n{commands}"), &folder.0, &kopf_rs);
    command.env("PATH", format!("{}:{path}", programs.display())).env("CARGO_NET_OFFLINE", "true");
    ended(command).await
}

#[tokio::test]
async fn the_printed_commands_build_test_and_run_a_new_operator() {
    let folder = Away::new("new");
    folder.profile();
    let reconciler = ["my-proxies", "--kind", "net.example.org/v1beta1/Proxy", "--reconcile"];
    for (args, handled, definition) in [
        (&["greeter"][..], "[default/sample] Handler 'announce' succeeded.", "name: greeters.example.com"),
        (
            &reconciler,
            "[default/sample] Reconciler 'keep_config_map' succeeded.",
            "name: proxies.net.example.org",
        ),
    ] {
        let commands = created(&folder, args).await;
        let printing = format!("kopf-rs manifests . --image {}:1\nkopf-rs manifests . --observe", args[0]);
        let said = tried(&folder, &format!("{commands}\n{printing}")).await;
        assert!(said.contains("test result: ok. 2 passed"), "{said}");
        assert!(
            said.contains("All requests that handlers have sent by their `client` are permitted"),
            "{said}"
        );
        assert!(said.contains(handled), "{said}");
        let image = format!("image: {}:1", args[0]);
        for printed in ["kind: CustomResourceDefinition", definition, "kind: Deployment", &image] {
            assert!(said.contains(printed), "{printed}: {said}");
        }
    }
    let commands = created(&folder, &["single", "--single-file"]).await;
    let said = tried(&folder, &commands).await;
    assert!(said.contains("[default/sample] sample says: hello"), "{said}");
}

#[tokio::test]
async fn added_kinds_webhooks_and_conversions_build_and_pass_their_tests() {
    let folder = Away::new("added");
    folder.profile();
    created(&folder, &["grower"]).await;
    let commands = "cd grower
kopf-rs add kind shop.example.org/v1alpha1/Order --reconcile
kopf-rs add webhook --kind Grower
kopf-rs add conversion --kind Grower
kopf-rs add conversion v1 --kind Order
if kopf-rs add kind shop.example.org/v1/Order; then exit 9; fi
cargo test
kopf-rs manifests . --image grower:1";
    let done = shelled(&folder, commands).await;
    done.with(
        0,
        &[
            "Added src/order.rs",
            "Added order.yaml",
            "Changed src/order.rs: it declares the module `v1`",
            "defines the kind shop.example.org/v1/Order already",
            "test result: ok. 7 passed",
            "name: orders.shop.example.org",
            "name: v2",
        ],
    );
    assert!(!done.said.contains("warning"), "{}", done.said);
}
