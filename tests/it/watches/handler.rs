//! The behaviour of handlers in a history: random during the trouble, faultless afterwards.
//!
//! This module must not depend on the checks.

use std::time::Duration;

use kopf_rs::{Callback, Context, HandlerResult, PermanentError, TemporaryError, handler as callback};
use serde_json::{Value, json};

use super::cluster::OBJECTS;
use super::event::Event;
use super::record::{End, Place};
use super::roles::Role;
use super::simulation::Simulation;
use crate::random::dice::Dice;

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    Temporary(f64),
    Arbitrary,
    Permanent,
}

/// A running call; if it is dropped before its end, it was cut off.
struct Call {
    simulation: Simulation,
    place: Place,
    end: Option<End>,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.simulation.state().record.ended(self.place, self.end);
    }
}

/// Returns a handler for this role.
pub(super) fn handler(simulation: &Simulation, role: &Role) -> Callback {
    let (simulation, role) = (simulation.clone(), role.clone());
    callback(role.name(), move |context: Context| {
        let (simulation, role) = (simulation.clone(), role.clone());
        async move { run(&simulation, &role, &context).await }
    })
}

async fn run(simulation: &Simulation, role: &Role, context: &Context) -> HandlerResult<Value> {
    simulation.meet(context.body()).await;
    let presence = simulation.presence(context.uid()).await;
    let (mut call, takes, outcome) = {
        let state = &mut simulation.state();
        let place = state.record.called(role, context, presence);
        let call = Call { simulation: simulation.clone(), place, end: None };
        let (takes, outcome) = behaviour(state.may(Event::Failures), role, context, &mut state.dice);
        (call, takes, outcome)
    };
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
    let last = role.retries.is_some_and(|limit| context.retry() + 1 >= limit);
    let again = if last { End::Failed } else { End::Again };
    let seen = role.scope(context.body().spec());
    let (end, result) = match outcome {
        Outcome::Done if role.patches => {
            context.patch(|patch| patch["status"]["patched"] = seen);
            (End::Done, Ok(Value::Null))
        }
        Outcome::Done => (End::Done, Ok(json!({"seen": seen}))),
        Outcome::Temporary(delay) => {
            let error = TemporaryError::new("as the dice fell").delay(delay);
            (again, Err(error.into()))
        }
        Outcome::Arbitrary => (again, Err("as the dice fell".into())),
        Outcome::Permanent => (End::Failed, Err(PermanentError::new("as the dice fell").into())),
    };
    call.end = Some(end);
    result
}

/// Rolls the duration and the outcome of a call. Only the first object is slow, so that a wait of another object has another cause than its
/// own handlers.
fn behaviour(fails: bool, role: &Role, context: &Context, dice: &mut Dice) -> (Duration, Outcome) {
    if !fails {
        return (Duration::ZERO, Outcome::Done);
    }
    let slow = OBJECTS[0] == (context.namespace().unwrap_or_default(), context.name());
    let times = [0, 0, 1, 100, 1500, 6000, 100_000];
    let times = if slow { &times[..] } else { &times[..5] };
    let takes = Duration::from_millis(*dice.pick(times));
    let outcome = match dice.roll(16) {
        _ if role.timeout.is_some() => Outcome::Done,
        0 => Outcome::Temporary(0.0),
        1 | 2 => Outcome::Temporary(2.0),
        3 => Outcome::Temporary(40.0),
        4 | 5 => Outcome::Arbitrary,
        6 => Outcome::Permanent,
        _ => Outcome::Done,
    };
    (takes, outcome)
}
