//! Random kubeconfigs: each is either refused or becomes a client.

use std::path::Path;

use kopf_rs_fuzz::{Run, Target, attack, texts};

use super::file::File;
use super::*;
use crate::cluster::access::{Authorization, Trust};
use crate::cluster::stack::stack;

const FILES: &[&str] = &[
    super::tests::GOOD,
    r#"{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u","namespace":"n"}}],"clusters":[{"name":"c","cluster":{"server":"https://[::1]:6443/base","insecure-skip-tls-verify":true,"tls-server-name":"a.b","proxy-url":"socks5://me:pw@a:1","extensions":[{"name":"e","extension":{}}]}}],"users":[{"name":"u","user":{"username":"me","password":"pw","as":"you","as-uid":"1","as-groups":["a"],"as-user-extra":{"a/b":["1"]}}}]}"#,
    r#"{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"http://a","certificate-authority-data":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="}}],"users":[{"name":"u","user":{"client-certificate-data":"","client-key-data":"","exec":{"command":"x","apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never","env":[{"name":"A","value":"B"}],"provideClusterInfo":true},"auth-provider":{"name":"oidc","config":{"id-token":"a.b.c"}}}}]}"#,
];

const WORDS: &[&str] = &[
    "exec: {command: x, apiVersion: client.authentication.k8s.io/v1beta1, provideClusterInfo: true}",
    "https://[::1",
    "http://a:99999",
    "\u{0}",
    "\r\n",
    "null",
    "{",
    "}",
    "[",
    "- ",
    ": ",
    "'",
    "é",
    "socks5://%zz@a",
    "*a",
    "&a ",
    "tokenFile: x",
    "username: me",
    "client-certificate-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",
    "server",
    "proxy-url",
    "tls-server-name",
    "token",
    "auth-provider",
    "exec",
    "as-user-extra",
    "https://",
    "127.0.0.1:6443",
    "!!binary ",
    "<<: *a",
    "%YAML 1.2\n",
    "---\n",
];

fn files() -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    Box::new(move |input| {
        let Ok(whole) = File::parse(input, Path::new("/folder")) else {
            return;
        };
        let label = "FILE".to_owned();
        let Ok(access) = (Kubeconfig { whole, label }).access(None, None) else {
            return;
        };
        // Skip plugins, which would run, and the system's authorities, which would be read each time.
        let runs = matches!(access.authorization, Authorization::Plugin(_));
        if !runs && !matches!(access.trust, Trust::System) {
            runtime.block_on(async {
                drop(stack(access).await);
                // Lets the runtime end the tasks of the client. Otherwise, they would wait for the next input, ever more of them.
                for _ in 0..8 {
                    tokio::task::yield_now().await;
                }
            });
        }
    })
}

#[test]
fn no_kubeconfig_breaks_the_start() {
    let target =
        Target { name: "kubeconfig", share: 1, tokens: WORDS, samples: || texts(FILES), begin: files };
    attack(&[target], 2000);
}
