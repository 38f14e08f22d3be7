use std::path::Path;

use super::*;
use crate::cluster::connect::kubeconfig::file::File;

pub(super) const GOOD: &str = "
apiVersion: v1
kind: Config
current-context: c
contexts:
- {name: c, context: {cluster: c, user: u}}
clusters:
- name: c
  cluster: {server: 'https://127.0.0.1:1', proxy-url: '', certificate-authority-data: ''}
users:
- name: u
  user: {token: my-secret, as: you, as-groups: [a, b], as-user-extra: {a/b: ['1']}}
";

fn read(text: &str) -> Result<Kubeconfig, String> {
    let whole = File::parse(text.as_bytes(), Path::new("/folder"))?;
    let label = "FILE".to_owned();
    Ok(Kubeconfig { whole, label })
}

fn refusal(text: &str) -> String {
    match read(text) {
        Err(why) => why,
        Ok(it) => match it.access(None, None) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("taken: {text}"),
        },
    }
}

/// Returns the kubeconfig with another user.
fn of_user(user: &str) -> String {
    let user = format!("user: {{{user}}}");
    GOOD.lines()
        .map(|line| if line.starts_with("  user:") { format!("  {user}\n") } else { format!("{line}\n") })
        .collect()
}

/// Returns the kubeconfig with another cluster.
fn of_cluster(cluster: &str) -> String {
    let cluster = format!("cluster: {{{cluster}}}");
    GOOD.lines()
        .map(
            |line| {
                if line.starts_with("  cluster:") { format!("  {cluster}\n") } else { format!("{line}\n") }
            },
        )
        .collect()
}

#[test]
fn the_namespace_is_the_one_of_the_context_else_of_the_pod() {
    let namespace = |text: &str, pod| {
        let access = read(text).unwrap().access(None, pod);
        access.unwrap_or_else(|error| panic!("{error}")).namespace
    };
    let named = GOOD.replace("user: u}", "user: u, namespace: team}");
    assert_eq!(namespace(&named, Some("pod")), "team");
    assert_eq!(namespace(GOOD, Some("pod")), "pod");
    assert_eq!(namespace(GOOD, None), "default");
}

#[test]
fn refusals_name_the_context_the_part_and_the_remedy_and_no_secret() {
    let exec = |more: &str| {
        let version = "apiVersion: client.authentication.k8s.io/v1";
        of_user(&format!("exec: {{command: x, {version}, {more}}}"))
    };
    for (text, told) in [
        (of_user("token: my-secret, username: me"), "user \"u\": a token and a username are given; keep one"),
        (of_user("token: 123456"), "`users[0].user.token`: expected a string"),
        (of_user("token: [my-secret]"), "`users[0].user.token`: expected a string"),
        (of_user("token: \"my-secret\\n\""), "user \"u\": the token has a line break"),
        (of_user("client-key-data: my-secret"), "`users[0].user.client-key-data`: expected base64"),
        (of_user("client-certificate-data: bXktc2VjcmV0"), "expected `client-key` or `client-key-data`"),
        (
            of_user("client-certificate-data: bXktc2VjcmV0, client-key-data: bXktc2VjcmV0"),
            "no section `BEGIN CERTIFICATE`",
        ),
        (of_user("tokenFile: absent"), "`tokenFile`: /folder/absent cannot be read"),
        (of_user("as-groups: [a]"), "say more of the user in `as`"),
        (of_user("as: \"a\\nb\""), "`as` has a line break"),
        (of_user("auth-provider: {name: gcp}"), "gke-gcloud-auth-plugin"),
        (
            of_user("auth-provider: {name: oidc, config: {id-token: my-secret}}"),
            "not a valid token: log in again",
        ),
        (exec(""), "`exec` has no `interactiveMode`; expected Never"),
        (exec("interactiveMode: Sometimes"), "`exec.interactiveMode` is \"Sometimes\""),
        (of_cluster("server: 'https://me:my-secret@a:99999'"), "`server`: its port is 99999"),
        (of_cluster("server: ''"), "its cluster \"c\" has no server"),
        (
            of_cluster("server: 'https://a', proxy-url: 'socks4://me:my-secret@a'"),
            "`proxy-url`: its scheme is \"socks4\"",
        ),
        (of_cluster("server: 'https://a', certificate-authority: absent"), "/folder/absent cannot be read"),
        (of_cluster("server: 'https://a', insecure-skip-tls-verify: maybe"), "expected true or false"),
        (
            GOOD.replace("cluster: c, user", "cluster: d, user"),
            "its cluster \"d\" is not in the file, which has \"c\"",
        ),
        (GOOD.replace("kind: Config", "kind: Pod"), "expected `apiVersion: v1` and `kind: Config`"),
        ("users: [{name: u, user: {token: \"my-secret}}]".to_owned(), "line 1"),
        ("token: my-secret\n  x: y".to_owned(), "line "),
        ("- my-secret".to_owned(), "expected"),
    ] {
        let words = refusal(&text);
        assert!(words.contains(told), "{told}: {words}\n{text}");
        assert!(!words.contains("secret") && !words.contains("123456"), "{words}");
        let is_usable = read(&text).is_ok();
        assert!(!is_usable || words.contains("FILE"), "{words}");
    }
}

#[test]
fn unused_entries_are_not_checked() {
    let unused = "
- {name: v, user: {username: '', exec: {interactiveMode: Sometimes}}}
- {name: w, user: {auth-provider: {name: z, config: null}}}
- {name: z, user: null}
- name: a
";
    let text = format!("{GOOD}{}", unused.trim_start());
    let text = text.replace("contexts:\n", "contexts:\n- {name: x, context: null}\n- name: z\n");
    let taken = read(&text).and_then(|it| it.access(None, None).map_err(|it| it.to_string()));
    assert!(taken.is_ok(), "{:?}", taken.err());
}

#[test]
fn merged_files_change_no_existing_entry() {
    let mut whole = File::default();
    for text in [
        "current-context: ''",
        GOOD,
        &GOOD.replace("current-context: c", "current-context: d").replace("my-secret", "other"),
    ] {
        let file = File::parse(text.as_bytes(), Path::new("/folder"));
        add(&mut whole, file.unwrap_or_else(|why| panic!("{why}")));
    }
    assert_eq!(whole.current_context, "c");
    assert_eq!(whole.users.len(), 1);
    assert_eq!(whole.users[0].user.token, "my-secret");
}

#[test]
fn encodings_of_editors_are_known_and_others_are_refused() {
    let parse = |bytes: &[u8]| File::parse(bytes, Path::new("/folder")).map(|it| it.current_context);
    let wide = |mark: &[u8], unit: fn(u16) -> [u8; 2]| {
        let units = GOOD.encode_utf16().flat_map(unit);
        mark.iter().copied().chain(units).collect::<Vec<u8>>()
    };
    let little = wide(&[0xFF, 0xFE], u16::to_le_bytes);
    assert_eq!(parse(&little).as_deref(), Ok("c"));
    assert_eq!(parse(&wide(&[0xFE, 0xFF], u16::to_be_bytes)).as_deref(), Ok("c"));
    assert_eq!(parse(&[b"\xEF\xBB\xBF", GOOD.as_bytes()].concat()).as_deref(), Ok("c"));
    for cut in [&little[..little.len() - 1], b"\xC0\xC1"] {
        let refused = parse(cut);
        assert_eq!(refused, Err("it is not text in UTF-8 or UTF-16".to_owned()));
    }
}
