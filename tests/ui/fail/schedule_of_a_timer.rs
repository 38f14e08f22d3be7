//! Cron expressions and time zones that are none, and what does not go with them.

use kopf_rs::prelude::*;

#[timer("myapps", schedule = "0 25 * * *")]
async fn no_hour() {}

#[timer("myapps", schedule = "0 0 3 * * *")]
async fn six_fields() {}

#[timer("myapps", schedule = "0 0 30 2 *")]
async fn never() {}

#[timer("myapps", schedule = 5)]
async fn number() {}

#[timer("myapps", schedule = "0 3 * * *", zone = "Europe/Atlantis")]
async fn nowhere() {}

#[timer("myapps", zone = "Europe/Kyiv")]
async fn zone_alone() {}

#[timer("myapps", interval = 60, schedule = "0 3 * * *")]
async fn interval_too() {}

#[timer("myapps", schedule = "0 3 * * *", initial_delay = 5)]
async fn delay_too() {}

#[daemon("myapps", schedule = "0 3 * * *")]
async fn daemon_with_a_schedule() {}

fn main() {}
