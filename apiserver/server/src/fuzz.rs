//! Fuzzes every parser of the API server, and whole requests, with random and damaged inputs from `kopf_rs_fuzz`.

mod samples;
mod target;

#[test]
fn no_input_breaks_a_parser() {
    kopf_rs_fuzz::attack(target::TARGETS, 20_000);
}
