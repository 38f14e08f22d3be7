use std::path::{Path, PathBuf};

use super::place::{Place, Surroundings, find};
use super::*;
use crate::cluster::fake::{Answer, Fake};

const TWO_CONTEXTS: &str = "
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: c, user: u, namespace: team}}
- {name: prod, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: 'http://127.0.0.1:1'}}
users:
- {name: u, user: {}}
";

/// A folder of this test's own, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kopf-rs-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join(".kube")).unwrap();
        Self(path)
    }
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn flag(path: &Path) -> ConnectOptions {
    ConnectOptions {
        kubeconfig: Some(path.to_owned()),
        context: None,
    }
}

async fn refusal(options: ConnectOptions) -> String {
    match connect(&options).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_places_are_tried_in_order() {
    let folder = Folder::new("order");
    let here = folder.write("here", TWO_CONTEXTS);
    let default = folder.write(".kube/config", TWO_CONTEXTS);
    let mut around = Surroundings {
        kubeconfig: Some(std::env::join_paths([&here, &folder.0.join("missing")]).unwrap()),
        home: Some(folder.0.clone()),
        pod: true,
    };
    let none = ConnectOptions::default();
    let place = |path: &PathBuf, origin| Place::Files(vec![path.clone()], origin);
    assert_eq!(
        find(&flag(&default), &around).unwrap(),
        place(&default, Origin::Flag)
    );
    assert_eq!(
        find(&none, &around).unwrap(),
        place(&here, Origin::Environment)
    );
    around.kubeconfig = Some("".into());
    assert_eq!(find(&none, &around).unwrap(), place(&default, Origin::Home));
    std::fs::remove_file(&default).unwrap();
    assert_eq!(find(&none, &around).unwrap(), Place::Pod);
    around.pod = false;
    let words = find(&none, &around).unwrap_err().to_string();
    for part in [
        "$KUBECONFIG is not set",
        ".kube/config is not there",
        "--kubeconfig",
        "--embedded",
    ] {
        assert!(words.contains(part), "{words}");
    }
}

#[tokio::test]
async fn a_missing_or_broken_file_is_named() {
    let folder = Folder::new("broken");
    let missing = folder.0.join("missing");
    assert_eq!(
        refusal(flag(&missing)).await,
        format!(
            "kubeconfig {} (from --kubeconfig) cannot be read: there is no such file; correct the path",
            missing.display()
        )
    );
    let broken = folder.write("broken", "contexts: [\n  - {name: ");
    let words = refusal(flag(&broken)).await;
    assert!(
        words.contains("broken (from --kubeconfig) is not valid"),
        "{words}"
    );
}

#[tokio::test]
async fn a_context_that_is_not_there_is_answered_with_those_that_are() {
    let folder = Folder::new("context");
    let path = folder.write("config", TWO_CONTEXTS);
    let mut options = flag(&path);
    options.context = Some("stage".into());
    assert_eq!(
        refusal(options).await,
        format!(
            "context \"stage\" is not in kubeconfig {}, which has \"dev\", \"prod\"; choose one of them with --context",
            path.display()
        )
    );
    let path = folder.write("config", &TWO_CONTEXTS.replace("current-context: dev", ""));
    let words = refusal(flag(&path)).await;
    assert!(
        words.ends_with("has no current-context, but \"dev\", \"prod\"; choose one with --context")
    );
}

#[tokio::test]
async fn a_file_without_contexts_is_no_kubeconfig() {
    let folder = Folder::new("none");
    let path = folder.write("crd.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    let words = refusal(flag(&path)).await;
    assert!(
        words.contains("crd.yaml has no contexts: is it a kubeconfig?"),
        "{words}"
    );
}

#[tokio::test]
async fn a_kubeconfig_makes_a_client_with_its_namespace() {
    let folder = Folder::new("client");
    let path = folder.write("config", TWO_CONTEXTS);
    let client = connect(&flag(&path)).await.unwrap();
    assert_eq!(client.default_namespace(), "team");
    let words = Cluster::new(client).check().await.unwrap_err().to_string();
    assert!(
        words.starts_with("unreachable: http://127.0.0.1:1: "),
        "{words}"
    );
    assert!(
        words.ends_with("(nothing listens there: is the cluster running?)"),
        "{words}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_check_tells_refusals_and_strangers_apart() {
    for (answer, expected) in [
        (Answer::new(200, r#"{"gitVersion":"v1.36.3"}"#), "v1.36.3"),
        (
            Answer::refusal(401, "Unauthorized"),
            "unauthorized: Unauthorized (the server does not know these credentials: are those in the kubeconfig right, and not expired?)",
        ),
        (
            Answer::refusal(404, "page not found"),
            "invalid: there is no /version: no Kubernetes API server is there; check the server in the kubeconfig",
        ),
        (
            Answer::new(200, "<html>hello</html>"),
            "invalid: the answer to /version is not a Kubernetes API server's: check the server in the kubeconfig",
        ),
    ] {
        let fake = Fake::new([answer]);
        let words = fake
            .cluster()
            .check()
            .await
            .unwrap_or_else(|error| error.to_string());
        assert_eq!(words, expected);
    }
}
