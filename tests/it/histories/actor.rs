//! The behaviour of the handlers in a history: random during the trouble, faultless afterwards.
//!
//! This module must not depend on the checks.

use std::time::Duration;

use kopf_rs::{Callback, Context, HandlerError, HandlerResult, PermanentError, TemporaryError, handler};
use serde_json::{Value, json};

use super::record::End;
use super::roles::Role;
use super::simulation::{Simulation, Trouble};
use crate::random::dice::Dice;

/// The behaviour of one call.
#[derive(Clone, Copy, Debug)]
struct Act {
    takes: Duration,
    /// A user changes an object during the call.
    meddled: bool,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Done,
    Result(usize),
    Temporary(f64),
    Arbitrary,
    Permanent,
}

/// Returns a handler for `role`.
pub(super) fn actor(simulation: &Simulation, role: &Role) -> Callback {
    let (simulation, played) = (simulation.clone(), role.clone());
    handler(role.name(), move |context: Context| {
        let (simulation, role) = (simulation.clone(), played.clone());
        async move { act(&simulation, &role, &context).await }
    })
}

fn child(simulation: &Simulation, role: &Role, name: &str) -> Callback {
    let (simulation, parent) = (simulation.clone(), role);
    let role = parent.child(name);
    let field = role.own_field(parent);
    let child = handler(name, move |context: Context| {
        let (simulation, role) = (simulation.clone(), role.clone());
        async move { act(&simulation, &role, &context).await }
    });
    match field {
        Some(field) => child.field(field),
        None => child,
    }
}

async fn act(simulation: &Simulation, role: &Role, context: &Context) -> HandlerResult<Value> {
    let (place, act) = {
        let mut play = simulation.play();
        let trouble = play.trouble;
        let place = play.record.called(role, context);
        (place, Act::of(&mut play.dice, trouble))
    };
    if act.meddled {
        simulation.edit().await;
    }
    if !act.takes.is_zero() {
        tokio::time::sleep(act.takes).await;
    }
    let outcome = if context.retry() < role.fails { Outcome::Temporary(1.0) } else { act.outcome };
    let delay = match outcome {
        Outcome::Temporary(seconds) => Some(Duration::from_secs_f64(seconds)),
        _ => None,
    };
    let result = perform(simulation, role, context, outcome).await;
    let limit = role.retries.is_some_and(|limit| context.retry() + 1 >= limit);
    let end = match &result {
        Ok(_) => End::Done,
        Err(HandlerError::Permanent(_)) => End::Failed,
        Err(error) if error.to_string() == TRIED => {
            if limit {
                End::Failed
            } else {
                End::Again
            }
        }
        Err(_) => End::Waiting,
    };
    simulation.play().record.ended(place, end, delay);
    result
}

/// The message of random failures.
const TRIED: &str = "as the dice fell";

async fn perform(
    simulation: &Simulation,
    role: &Role,
    context: &Context,
    outcome: Outcome,
) -> HandlerResult<Value> {
    if role.children {
        let subs = context.subhandlers()?;
        for name in ["one", "two"] {
            subs.add(child(simulation, role, name));
        }
        subs.execute().await?;
    }
    if role.patches {
        let seen = context.body().spec()["a"].clone();
        context.patch(|patch| patch["spec"]["c"] = seen);
    }
    if role.grows {
        context.patch(|patch| {
            patch.transform(|object| {
                let list = &mut object["spec"]["list"];
                let mut items = list.as_array().cloned().unwrap_or_default();
                if !items.contains(&json!("grown")) {
                    items.push(json!("grown"));
                }
                *list = json!(items);
            });
        });
    }
    match outcome {
        Outcome::Done => Ok(Value::Null),
        Outcome::Result(number) => Ok(json!({"made": number})),
        Outcome::Temporary(delay) => Err(TemporaryError::new(TRIED).delay(delay).into()),
        Outcome::Arbitrary => Err(TRIED)?,
        Outcome::Permanent => Err(PermanentError::new(TRIED).into()),
    }
}

impl Act {
    fn of(dice: &mut Dice, trouble: Trouble) -> Self {
        let mut act = Self { takes: Duration::ZERO, meddled: false, outcome: Outcome::Done };
        if trouble.meddling {
            let times = [0, 0, 1, 100, 1500, 6000];
            act.takes = Duration::from_millis(*dice.pick(&times));
            act.meddled = dice.one_in(6);
        }
        if trouble.failures {
            act.outcome = match dice.roll(16) {
                0 => Outcome::Temporary(0.0),
                1 | 2 => Outcome::Temporary(2.0),
                3 => Outcome::Temporary(40.0),
                4 | 5 => Outcome::Arbitrary,
                6 => Outcome::Permanent,
                7..10 => Outcome::Result(dice.roll(3)),
                _ => Outcome::Done,
            };
        }
        act
    }
}
