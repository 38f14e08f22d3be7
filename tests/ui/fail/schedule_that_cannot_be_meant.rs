//! Intervals that nobody can mean, and options of the other attribute.

use kopf_rs::prelude::*;

#[timer("myapps", interval = 0)]
async fn zero() {}

#[timer("myapps", interval = -5)]
async fn negative() {}

#[timer("myapps", interval = "5s")]
async fn text() {}

#[timer("myapps", interval = |spec| 5)]
async fn of_the_spec() {}

#[timer("myapps", idle = 0)]
async fn idle() {}

#[daemon("myapps", interval = 5)]
async fn daemon_with_an_interval() {}

#[timer("myapps", cancellation_timeout = 5)]
async fn timer_with_a_timeout() {}

fn main() {}
