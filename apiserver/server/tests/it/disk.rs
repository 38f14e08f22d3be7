//! Data directories: a restarted server has all objects that it answered with.

use std::fs;
use std::path::{Path, PathBuf};

use kopf_rs_apiserver::{ApiServer, DataDir, OpenError};
use serde_json::{Value, json};

use super::{APPS, CRD, CRDS, Lines, MAPS, app, ask, crd, done, get, map};

/// Returns a path that does not exist yet, for one test.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("disk")
        .join(name);
    if path.exists() {
        fs::remove_dir_all(&path).unwrap();
    }
    path
}

fn open(dir: &Path) -> ApiServer {
    ApiServer::open(dir).unwrap()
}

/// Returns the change files.
fn changes(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_stem().is_some_and(|stem| stem == "changes"))
        .collect();
    files.sort();
    files
}

/// Returns all objects of the kinds in these tests.
async fn contents(server: &ApiServer) -> Vec<Value> {
    let mut all = Vec::new();
    for uri in [MAPS, APPS, CRDS, "/api/v1/namespaces"] {
        let mut list = get(server, uri).await.1;
        all.push(list.get_mut("items").map(Value::take).unwrap_or_default());
    }
    all
}

#[tokio::test]
async fn a_cluster_is_kept_between_runs() {
    let dir = folder("kept");
    let server = open(&dir);
    assert_eq!(server.recovered().unwrap().objects, 0);
    done(&server, "POST", CRDS, crd()).await;
    done(&server, "POST", APPS, app("x")).await;
    done(
        &server,
        "PATCH",
        &format!("{APPS}/x"),
        json!({"spec": {"image": "other"}}),
    )
    .await;
    done(&server, "POST", MAPS, map("gone")).await;
    done(&server, "DELETE", &format!("{MAPS}/gone"), Value::Null).await;
    let owner = done(&server, "POST", MAPS, map("owner")).await;
    let mut child = map("child");
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    done(&server, "POST", MAPS, child).await;
    let before = contents(&server).await;
    let revision = get(&server, MAPS).await.1["metadata"]["resourceVersion"].clone();
    drop(server);

    let server = open(&dir);
    assert_eq!(contents(&server).await, before);
    assert_eq!(server.recovered().unwrap().dropped, 0);
    let again = get(&server, MAPS).await.1["metadata"]["resourceVersion"].clone();
    assert_eq!(again, revision);
    // The kind is still served, and names, owner references and definitions keep their effect.
    let (code, _) = ask(&server, "POST", APPS, app("x")).await;
    assert_eq!(code, 409);
    done(&server, "DELETE", &format!("{MAPS}/owner"), Value::Null).await;
    assert_eq!(get(&server, &format!("{MAPS}/child")).await.0, 404);
    done(&server, "DELETE", CRD, Value::Null).await;
    drop(server);

    let server = open(&dir);
    assert_eq!(get(&server, APPS).await.0, 404);
    assert_eq!(get(&server, MAPS).await.1["items"], json!([]));
}

#[tokio::test]
async fn watches_of_the_last_run_are_too_old() {
    let dir = folder("watches");
    let server = open(&dir);
    let first = done(&server, "POST", MAPS, map("a")).await;
    done(&server, "POST", MAPS, map("b")).await;
    drop(server);
    let server = open(&dir);
    let from = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut old = Lines::open(&server, &format!("{MAPS}?watch=1&resourceVersion={from}")).await;
    assert_eq!(old.next().await.unwrap()["object"]["code"], 410);
    let now = get(&server, MAPS).await.1["metadata"]["resourceVersion"].clone();
    let now = now.as_str().unwrap();
    let mut new = Lines::open(&server, &format!("{MAPS}?watch=1&resourceVersion={now}")).await;
    done(&server, "POST", MAPS, map("c")).await;
    assert_eq!(new.brief().await, "ADDED c");
}

#[tokio::test]
async fn a_change_that_is_there_in_part_is_dropped_and_said() {
    let dir = folder("torn");
    let server = open(&dir);
    done(&server, "POST", MAPS, map("whole")).await;
    let before = contents(&server).await;
    let whole = fs::metadata(&changes(&dir)[0]).unwrap().len();
    done(&server, "POST", MAPS, map("torn")).await;
    drop(server);
    let all = fs::read(&changes(&dir)[0]).unwrap();
    for cut in [whole + 1, whole + 17, whole + 100, all.len() as u64 - 1] {
        let cut = usize::try_from(cut).unwrap();
        fs::write(&changes(&dir)[0], &all[..cut]).unwrap();
        let server = open(&dir);
        assert_eq!(
            server.recovered().unwrap().dropped,
            cut as u64 - whole,
            "{cut}"
        );
        assert_eq!(contents(&server).await, before, "{cut}");
        drop(server);
        assert_eq!(open(&dir).recovered().unwrap().dropped, 0);
    }
}

#[tokio::test]
async fn damage_is_named_by_file_and_place() {
    let dir = folder("damaged");
    let server = open(&dir);
    done(&server, "POST", MAPS, map("a")).await;
    drop(server);
    let file = changes(&dir)[0].clone();
    let mut bytes = fs::read(&file).unwrap();
    bytes[40] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = ApiServer::open(&*dir).unwrap_err();
    let OpenError::Damaged { path, offset, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!((path, *offset), (&file, 0));
    assert!(
        error.to_string().contains("is damaged at byte 0"),
        "{error}"
    );
}

#[tokio::test]
async fn an_identity_that_is_not_as_it_was_written_is_refused() {
    let dir = folder("damaged-identity");
    drop(open(&dir));
    let file = dir.join("identity.json");
    let whole = fs::read(&file).unwrap();
    let refused = |bytes: &[u8], at: usize| {
        fs::write(&file, bytes).unwrap();
        let error = ApiServer::open(&*dir).unwrap_err();
        let named = matches!(&error, OpenError::Damaged { path, .. } if *path == file);
        assert!(named, "{at}: {error}");
        assert!(
            error.to_string().contains("identity.json is damaged"),
            "{error}"
        );
    };
    for at in 0..whole.len() {
        let mut other = whole.clone();
        other[at] ^= 1;
        refused(&other, at);
    }
    for end in [0, 1, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..end], end);
    }
    fs::write(&file, &whole).unwrap();
    drop(open(&dir));
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[tokio::test]
async fn an_identity_that_is_missing_is_named() {
    let dir = folder("missing-identity");
    let file = dir.join("identity.json");
    // In the first round the objects are in the change files, in the second in a snapshot.
    for after in [u64::MAX, 1] {
        let server = ApiServer::open(DataDir::new(&dir).snapshot_after(after)).unwrap();
        done(&server, "POST", MAPS, map(&format!("m{after}"))).await;
        drop(server);
        assert_eq!(dir.join("snapshot").is_file(), after == 1);
        assert_eq!(missing_without(&dir, &file, "away"), "identity.json");
    }
    drop(open(&dir));

    // A server that was stopped before it had an identity has no objects either.
    let dir = folder("nobody-yet");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("changes.1"), "").unwrap();
    assert_eq!(open(&dir).recovered().unwrap().objects, 0);
}

/// Opens a directory, which fails because of a missing file; returns its name.
fn missing(dir: &Path) -> String {
    let error = ApiServer::open(dir).unwrap_err();
    let told = error.to_string();
    let OpenError::Missing { path, .. } = error else {
        panic!("{told}");
    };
    assert!(told.contains(&path.display().to_string()), "{told}");
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// Moves a file away and returns the name of the file that is reported as missing; moves it back.
fn missing_without(dir: &Path, file: &Path, instead: &str) -> String {
    fs::rename(file, dir.join(instead)).unwrap();
    let found = missing(dir);
    fs::rename(dir.join(instead), file).unwrap();
    found
}

#[tokio::test]
async fn a_file_that_is_missing_is_named() {
    let dir = folder("missing");
    let small = || DataDir::new(&dir).snapshot_after(5_000);
    // The folder prevents snapshots, so change files accumulate.
    fs::create_dir_all(dir.join("snapshot.new")).unwrap();
    let server = ApiServer::open(small()).unwrap();
    done(&server, "POST", MAPS, map("m")).await;
    let change = async |server: &ApiServer, times: usize| {
        for number in 0..times {
            let data = json!({"data": {"a": number.to_string(), "filler": "x".repeat(1000)}});
            done(server, "PATCH", &format!("{MAPS}/m"), data).await;
        }
    };
    for _ in 0..20 {
        change(&server, 20).await;
        if changes(&dir).len() > 2 {
            break;
        }
    }
    drop(server);
    fs::remove_dir(dir.join("snapshot.new")).unwrap();
    let files = changes(&dir);
    assert!(files.len() > 2, "{files:?}");
    // A snapshot may have replaced the first change file, so the snapshot counts as missing.
    assert_eq!(missing_without(&dir, &files[0], "away"), "snapshot");
    for file in &files[1..] {
        let name = file.file_name().unwrap().to_string_lossy();
        assert_eq!(missing_without(&dir, file, "away"), name);
    }

    let server = ApiServer::open(small()).unwrap();
    change(&server, 100).await;
    drop(server);
    let snapshot = dir.join("snapshot");
    assert!(snapshot.is_file());
    let files = changes(&dir);
    assert_eq!(missing_without(&dir, &snapshot, "away"), "snapshot");
    let first = files[0].file_name().unwrap().to_string_lossy();
    assert_eq!(missing_without(&dir, &files[0], "away"), first);
    assert_eq!(missing_without(&dir, &files[0], "changes.999"), first);
    drop(open(&dir));

    let dir = folder("missing-all");
    drop(open(&dir));
    fs::remove_file(&changes(&dir)[0]).unwrap();
    assert_eq!(missing(&dir), "changes.1");
}

#[tokio::test]
async fn a_directory_serves_one_server_at_a_time() {
    let dir = folder("in-use");
    let server = open(&dir);
    let error = ApiServer::open(&*dir).unwrap_err();
    assert!(matches!(error, OpenError::InUse(_)), "{error}");
    drop(server);
    open(&dir);
}

#[tokio::test]
async fn snapshots_take_the_place_of_changes() {
    let dir = folder("snapshots");
    let small = || DataDir::new(&dir).snapshot_after(10_000);
    let server = ApiServer::open(small()).unwrap();
    done(&server, "POST", CRDS, crd()).await;
    done(&server, "POST", APPS, app("x")).await;
    done(&server, "POST", MAPS, map("m")).await;
    for number in 0..200 {
        let data = json!({"data": {"a": number.to_string(), "filler": "x".repeat(500)}});
        done(&server, "PATCH", &format!("{MAPS}/m"), data).await;
    }
    let before = contents(&server).await;
    drop(server);
    assert!(dir.join("snapshot").is_file());
    let size: u64 = changes(&dir)
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!(size < 100_000, "{size} bytes of changes are left");
    let server = ApiServer::open(small()).unwrap();
    assert_eq!(contents(&server).await, before);
    done(&server, "POST", APPS, app("y")).await;
    drop(server);
    assert_eq!(get(&open(&dir), &format!("{APPS}/y")).await.0, 200);

    // A truncated snapshot is damage, because a snapshot gets its name only when it is complete.
    let snapshot = fs::read(dir.join("snapshot")).unwrap();
    fs::write(dir.join("snapshot"), &snapshot[..snapshot.len() - 1]).unwrap();
    let error = ApiServer::open(&*dir).unwrap_err().to_string();
    assert!(error.contains("the snapshot has no end"), "{error}");
}

#[tokio::test]
async fn clients_know_the_server_again() {
    let dir = folder("identity");
    let server = open(&dir);
    let listening = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (port, kubeconfig) = (listening.addr().port(), listening.kubeconfig());
    listening.shutdown().await;
    drop(server);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        for entry in fs::read_dir(&dir).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    }
    let server = open(&dir);
    assert_eq!(server.last_port(), Some(port));
    let listening = server.listen(([127, 0, 0, 1], port).into()).await.unwrap();
    assert_eq!(listening.kubeconfig(), kubeconfig);
    let client = super::tcp::client(&listening, None).await;
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
}

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Creates a service account and returns a token for it.
async fn token(server: &ApiServer) -> String {
    let account =
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    done(server, "POST", ACCOUNTS, account).await;
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], "expirationSeconds": 3600},
    });
    let uri = format!("{ACCOUNTS}/robot/token");
    let made = done(server, "POST", &uri, request).await;
    made["status"]["token"].as_str().unwrap().to_owned()
}

/// Returns the code for a request with this token: 403 for a known user without permissions, 401 for an invalid token.
async fn code_for(server: &ApiServer, token: &str) -> u16 {
    let request = http::Request::get(MAPS)
        .header("authorization", format!("Bearer {token}"))
        .body(http_body_util::Full::new(bytes::Bytes::new()))
        .unwrap();
    let service = server.service();
    tower::ServiceExt::oneshot(service, request)
        .await
        .unwrap()
        .status()
        .as_u16()
}

#[tokio::test]
async fn tokens_outlive_the_server_and_end_with_their_time() {
    let dir = folder("tokens");
    let server = open(&dir);
    let token = token(&server).await;
    assert_eq!(code_for(&server, &token).await, 403);
    drop(server);
    let server = open(&dir);
    assert_eq!(code_for(&server, &token).await, 403);
    server.jump_clock(2 * 3600);
    assert_eq!(code_for(&server, &token).await, 401);
    server.jump_clock(-2 * 3600);
    assert_eq!(code_for(&server, &token).await, 403);
}
