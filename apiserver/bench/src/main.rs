//! Compares the in-process API server with the real one: the same requests by the same client, round by round.
//!
//! Every run has a fresh server, and each response must be a success. Must not know how a server works inside.

mod contender;
mod job;
mod options;
mod table;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use serde_json::json;

use contender::{Server, root};
use options::Options;

/// The figures of one run, by measure.
pub type Figures = BTreeMap<&'static str, f64>;

/// The figures of all runs, by server and round.
pub type Rounds = BTreeMap<Server, Vec<Figures>>;

/// Measures all servers and prints the table.
#[tokio::main]
async fn main() -> Result<()> {
    let options = &Options::parse();
    say("building the servers");
    tokio::task::spawn_blocking(contender::prepare).await??;
    let mut rounds = Rounds::new();
    for round in 0..options.rounds {
        for place in 0..Server::ALL.len() {
            let server = Server::ALL[(round + place) % Server::ALL.len()];
            say(&format!("round {}: {}", round + 1, server.label()));
            let figures = job::run(options, server).await;
            let figures = figures.with_context(|| server.label())?;
            rounds.entry(server).or_default().push(figures);
        }
    }
    let raw: BTreeMap<_, _> = rounds
        .iter()
        .map(|(server, figures)| (server.label(), figures))
        .collect();
    let file = root().join("results/servers.json");
    std::fs::create_dir_all(root().join("results"))?;
    std::fs::write(
        &file,
        format!("{:#}\n", json!({"options": options, "rounds": raw})),
    )?;
    print!("{}", table::render(&rounds, options));
    Ok(())
}

/// Progress goes to standard error, so that standard output holds the table alone.
fn say(line: &str) {
    eprintln!("bench: {line}");
}
