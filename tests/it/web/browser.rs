//! The web page in a real Chromium: it runs no foreign script, refreshes itself, and tells when the operator does not answer.
//!
//! `KOPF_RS_SHOTS=DIR` saves screenshots of the idle, the busy and the failing operator, in the light and in the dark scheme.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use kopf_rs::{Registry, TemporaryError};
use kopf_rs_tests::{Missing, TestCluster, scenarios, skipped};
use serde_json::json;

use super::{EVIL, Shown, failing};
use crate::health::get;
use crate::operating::{Gate, TestOperator};

scenarios! {
    the_page_works_in_a_browser [tcp];
    the_page_refreshes_itself [tcp];
}

/// The time limit for a browser.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser without a window.
struct Browser {
    program: PathBuf,
    profile: PathBuf,
}

impl Browser {
    /// Finds the browser; with `CI=true`, installs it if necessary.
    fn find(test: &str) -> Option<Self> {
        let is_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        let program = on_path().or_else(|| if is_ci { install() } else { None });
        let Some(program) = program else {
            let (what, detail) = ("Chromium".to_owned(), "apt-get install chromium".to_owned());
            skipped(test, &Missing { what, detail });
            return None;
        };
        let unique = format!("kopf-rs-{}-{}", std::process::id(), test.replace(':', "-"));
        Some(Self { program, profile: std::env::temp_dir().join(unique) })
    }

    /// Opens the page with these flags, and returns the output.
    async fn run(&self, flags: &[&str], url: &str) -> String {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
        command.arg(format!("--user-data-dir={}", self.profile.display()));
        command.args(flags).arg(url).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(PATIENCE, command.output()).await;
        let output = output.expect("the browser ends in time").expect("it starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the page after its script has run for this many seconds of the browser's virtual time.
    async fn page_after(&self, seconds: u32, url: &str) -> String {
        self.run(&["--dump-dom", &format!("--virtual-time-budget={}", seconds * 1000)], url).await
    }

    /// Saves screenshots in both schemes if the environment names a folder for them.
    async fn shoot(&self, name: &str, url: &str) {
        let Some(folder) = std::env::var_os("KOPF_RS_SHOTS") else {
            return;
        };
        for (scheme, flag, size) in [
            ("light", "--blink-settings=preferredColorScheme=1", "1280,3000"),
            ("dark", "--force-dark-mode", "1280,3000"),
            ("narrow", "--blink-settings=preferredColorScheme=1", "500,3000"),
        ] {
            let file = Path::new(&folder).join(format!("{name}-{scheme}.png"));
            let shot = format!("--screenshot={}", file.display());
            let size = format!("--window-size={size}");
            self.run(&[flag, &shot, &size, "--virtual-time-budget=3000"], url).await;
            assert!(file.exists(), "{}", file.display());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn on_path() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&paths).flat_map(|path| names.map(|name| path.join(name))).find(|it| it.is_file())
}

/// Installs Chromium as a package of the system, under a lock because several tests may need it at once.
fn install() -> Option<PathBuf> {
    static INSTALLED: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let install = || {
        for args in [&["update", "-qq"][..], &["install", "-y", "-qq", "chromium"]] {
            let ended = Command::new("apt-get").args(args).stdout(Stdio::null()).status().ok()?;
            ended.success().then_some(())?;
        }
        on_path()
    };
    INSTALLED.get_or_init(install).clone()
}

async fn the_page_works_in_a_browser(cluster: TestCluster) {
    let Some(browser) = Browser::find("web::browser::the_page_works_in_a_browser") else {
        return;
    };
    let test = TestOperator::of(cluster).await;
    let gate = Gate::closed();
    let shown = Shown::start(&test, busy(&test, &gate)).await;
    let url = format!("http://127.0.0.1:{}/", shown.port);
    shown.until("/", "✓ synced").await;
    browser.shoot("idle", &url).await;

    let many = if std::env::var_os("KOPF_RS_SHOTS").is_some() { 300 } else { 3 };
    for number in 0..many {
        test.create(&format!("object-{number}"), json!({})).await;
    }
    test.calls_until(&format!("slow_fn object-{}", many - 1)).await;
    test.patch("object-0", json!({"spec": {"size": 1}})).await;
    shown.until("/", "slow_fn</td>").await;
    browser.shoot("load", &url).await;

    gate.open(many);
    shown.until("/", "failing_fn</td>").await;
    browser.shoot("failing", &url).await;
    let page = browser.page_after(1, &url).await;
    assert!(page.contains("<title>tester – operator</title>"), "a foreign script has run: {page}");
    assert!(page.contains("&lt;script&gt;document.title='owned'&lt;/script&gt;"), "{page}");
    assert!(!page.contains("<img"), "{page}");
    for text in ["Updated every 5 seconds.", ">Pause updates</button>", "failing_fn", "<svg role=\"img\""] {
        assert!(page.contains(text), "{text} is missing: {page}");
    }

    let object = format!("{url}{}", &shown.path_of("object", "object-0")[1..]);
    browser.shoot("object", &object).await;
    let page = browser.page_after(1, &object).await;
    for text in ["<strong>waiting</strong>", "Updated every 10 seconds.", "Handler 'slow_fn' succeeded."] {
        assert!(page.contains(text), "{text} is missing: {page}");
    }
    assert!(!page.contains(EVIL), "{page}");
    shown.working.stop().await;
}

/// Returns handlers of all kinds, one of which fails.
fn busy(test: &TestOperator, gate: &Gate) -> Registry {
    let again = test.handler("check_backup", |_| async {
        // Not again during the test, because its errors would take the places of others on the page.
        Err(TemporaryError::new("the backup is not complete").delay(600).into())
    });
    failing(test, gate)
        .on_update(test.selector(), test.noting("update_fn"))
        .on_delete(test.selector(), test.noting("delete_fn").optional())
        .timer(test.selector(), again.interval(60))
        .on_startup(kopf_rs::handler("startup_fn", |_| async { Ok(()) }))
}

/// Serves the page of an operator with a change at each request, and nothing after the third one.
async fn the_page_refreshes_itself(cluster: TestCluster) {
    let Some(browser) = Browser::find("web::browser::the_page_refreshes_itself") else {
        return;
    };
    let test = TestOperator::of(cluster).await;
    let shown = Shown::start(&test, failing(&test, &Gate::closed())).await;
    shown.until("/", "✓ synced").await;
    let mut files = Vec::new();
    for path in ["/", "/page.css", "/page.js"] {
        files.push((path, get(shown.port, path).await));
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    // The thread ends with the process.
    std::thread::spawn(move || {
        let mut pages = 0;
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
            reader.read_line(&mut line).expect("a request");
            let mut rest = String::new();
            while reader.read_line(&mut rest).is_ok_and(|length| length > 2) {
                rest.clear();
            }
            let path = line.split(' ').nth(1).unwrap_or_default();
            let Some((_, file)) = files.iter().find(|(it, _)| *it == path) else {
                continue;
            };
            if path == "/" {
                pages += 1;
            }
            if pages > 3 {
                continue;
            }
            let markup = file.text.replace("failing_fn", &format!("handler_of_answer_{pages}"));
            let length = markup.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {length}", file.kind);
            let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n{markup}");
        }
    });
    let url = format!("http://127.0.0.1:{port}/");
    let page = browser.page_after(3, &url).await;
    assert!(page.contains("handler_of_answer_1") && !page.contains("handler_of_answer_2"), "{page}");
    let page = browser.page_after(30, &url).await;
    assert!(page.contains("handler_of_answer_3") && !page.contains("handler_of_answer_2"), "{page}");
    assert!(page.contains("The operator has not answered since "), "{page}");
    shown.working.stop().await;
}
