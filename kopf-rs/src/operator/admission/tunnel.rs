//! Runs the user's command for a tunnel, through which the API server reaches the endpoint on this machine.
//!
//! Guarantees that the command and its children end with the operator. Must not know which tunnel it is.

use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::operator::settings::admission::AdmissionServer;

/// The longest wait for the URL.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of last lines in the message about a command that prints no URL.
const LAST_LINES: usize = 5;

/// A running tunnel. Dropping it ends the command.
#[derive(Debug)]
pub(super) struct Tunnel {
    command: String,
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Tunnel {
    /// Starts the command by the shell, with the port of the endpoint as `$PORT`, and waits until it prints the URL of the tunnel.
    pub(super) async fn start(command: &str, port: u16) -> Result<(Self, AdmissionServer), String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PORT", port.to_string());
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        in_own_group(&mut shell);
        let child =
            shell.spawn().map_err(|error| format!("the tunnel `{command}` cannot be started: {error}"))?;
        let (sender, lines) = mpsc::unbounded_channel();
        let mut tunnel = Self { command: command.to_owned(), child, lines };
        if let Some(output) = tunnel.child.stdout.take() {
            let reading =
                std::thread::Builder::new().name("tunnel".to_owned()).spawn(move || read(output, &sender));
            reading.map_err(|error| format!("the tunnel `{command}` cannot be read: {error}"))?;
        }
        let server = tunnel.server(PATIENCE).await?;
        Ok((tunnel, server))
    }

    /// Waits for the URL on standard output.
    async fn server(&mut self, patience: Duration) -> Result<AdmissionServer, String> {
        let mut last = Vec::new();
        let found = timeout(patience, async {
            while let Some(line) = self.lines.recv().await {
                if let Some(server) = url_in(&line) {
                    return Some(server);
                }
                last.push(line);
                if last.len() > LAST_LINES {
                    last.remove(0);
                }
            }
            None
        });
        let reason = match found.await {
            Ok(Some(server)) => return Ok(server),
            Ok(None) => "the command has ended".to_owned(),
            Err(_) => format!("no such line came within {} seconds", patience.as_secs()),
        };
        let last = if last.is_empty() { "nothing".to_owned() } else { format!("{:?}", last.join("\n")) };
        Err(format!(
            "the tunnel `{}` was expected to print its URL (https://HOST) on standard output, on a line of its own or after `url=`: {reason}; \
             its last output was {last}. Try the command in a shell, with the port of a local server as $PORT. If it prints the URL elsewhere, \
             add a filter, such as `2>&1 | grep -oE --line-buffered 'https://[^ |]+'`",
            self.command
        ))
    }

    /// Waits until the command ends. Returns the reason why webhooks cannot be served any more.
    pub(super) async fn ended(&mut self) -> String {
        // The lines are read, because a full pipe would stop the command.
        while self.lines.recv().await.is_some() {}
        format!(
            "the tunnel `{}` has ended, so the API server cannot reach the admission webhooks any more; start the operator again",
            self.command
        )
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        end(&mut self.child);
        // Collects the exit status of the shell.
        let _ = self.child.wait();
    }
}

/// Passes lines on, until the command closes its output.
fn read(output: ChildStdout, lines: &mpsc::UnboundedSender<String>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        // Fails only if nobody listens any more.
        let _ = lines.send(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
}

/// Returns the URL of the tunnel, if the line consists of it or has it after `url=`, and if it does not lead to this machine. URLs in other
/// places are those of terms and of documentation.
fn url_in(line: &str) -> Option<AdmissionServer> {
    let url = match line.split_once("url=") {
        Some((_, rest)) => rest.split_whitespace().next()?.trim_matches('"'),
        // Some commands draw a frame around it, after the time and the level of the line.
        None => match (line.find('|'), line.rfind('|')) {
            (Some(first), Some(last)) if first < last => line[first + 1..last].trim(),
            _ => line.trim_matches(|it: char| it.is_whitespace() || it == '|'),
        },
    };
    let server = AdmissionServer::parse(url.trim_end_matches('/'));
    let server = server.filter(|it| matches!(it, AdmissionServer::Url(_)))?;
    let is_address = |it: IpAddr| it.is_loopback() || it.is_unspecified();
    let is_here = |it: &String| it == "localhost" || it.parse().is_ok_and(is_address);
    (!server.names().iter().any(is_here)).then_some(server)
}

#[cfg(unix)]
fn in_own_group(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    command.process_group(0);
}

#[cfg(unix)]
fn end(child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails if it has ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn in_own_group(_: &mut Command) {}

#[cfg(not(unix))]
fn end(child: &mut Child) {
    // Fails if it has ended.
    let _ = child.kill();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_a_tunnel_is_found_in_its_output() {
        let found = |line: &str| url_in(line).map(|it| it.to_string());
        for (line, url) in [
            ("https://hooks.example.com", Some("https://hooks.example.com")),
            (
                "t=1 msg=started addr=https://localhost:9443 url=https://a.ngrok.app",
                Some("https://a.ngrok.app"),
            ),
            ("https://b.trycloudflare.com   |", Some("https://b.trycloudflare.com")),
            (
                "2026-11-11T19:57:58Z INF |  https://b.trycloudflare.com/   |",
                Some("https://b.trycloudflare.com"),
            ),
            ("https://127.0.0.1:80", None),
            ("https://0.0.0.0", None),
            ("https://[::1]", None),
            ("Terms of Use (https://www.example.com/terms/), and", None),
            ("https://docs.example.com/tunnels explains it", None),
            ("http://hooks.example.com", None),
        ] {
            assert_eq!(found(line).as_deref(), url, "{line}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_tunnel_lasts_as_long_as_its_command() {
        let command = "echo starting; echo https://hooks.example.com:$PORT/a";
        let (mut tunnel, server) = Tunnel::start(command, 7).await.unwrap();
        assert_eq!(server.to_string(), "https://hooks.example.com:7/a");
        let why = tunnel.ended().await;
        assert!(why.contains("has ended"), "{why}");
        let refused = Tunnel::start("echo no tunnel today", 7).await.unwrap_err();
        assert!(
            refused.contains("the command has ended; its last output was \"no tunnel today\""),
            "{refused}"
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn the_children_of_a_command_end_with_the_operator() {
        let command = "echo https://hooks.example.com; sleep 1000 | sleep 1000";
        let (mut tunnel, _) = Tunnel::start(command, 7).await.unwrap();
        end(&mut tunnel.child);
        // The last of them closes the output.
        let ended = timeout(Duration::from_secs(60), tunnel.ended()).await;
        assert!(ended.is_ok(), "a process of the tunnel still runs");
    }
}
