//! The options of the command line.

use clap::Parser;
use serde::Serialize;

/// Measures kopf-rs-apiserver beside a real kube-apiserver.
#[derive(Debug, Parser, Serialize)]
pub struct Options {
    /// The number of rounds.
    #[arg(long, default_value_t = 3, value_parser = positive)]
    pub rounds: usize,
    /// The number of objects in each server.
    #[arg(long, default_value_t = 10_000, value_parser = positive)]
    pub stored: usize,
    /// The number of requests in flight.
    #[arg(long, default_value_t = 16, value_parser = positive)]
    pub concurrency: usize,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(format!("{error}")),
    }
}
