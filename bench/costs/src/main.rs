//! The allocations, instructions and binary size of kopf-rs: `./test costs`, with the limits of `limits.txt`.
//!
//! Without arguments, measures everything and compares it with the limits. With a scenario and a number of objects, runs only that and
//! prints its numbers, for callgrind and for developers.

mod counted;
mod limits;
mod scenario;
mod server;
mod sizes;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

use crate::scenario::{Scenario, run};

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("costs: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start() -> Result<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [] => limits::check(),
        [name, objects] => {
            let scenario = Scenario::ALL.into_iter().find(|it| it.name() == name);
            let scenario = scenario.with_context(|| format!("no such scenario: {name}"))?;
            let costs = run(scenario, objects.parse()?)?;
            let numbers = [costs.units, costs.allocations, costs.bytes, costs.live, costs.peak];
            println!("{}", numbers.map(|it| it.to_string()).join(" "));
            Ok(true)
        }
        _ => bail!("expected nothing, or a scenario and a number of objects"),
    }
}
