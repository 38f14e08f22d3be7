//! The program that `kopf-rs freeze`, `kopf-rs resume` and `kopf-rs webhooks` build and become. `it peering::` and `it webhooks::` start it.

fn main() -> std::process::ExitCode {
    kopf_rs::cli::do_task()
}
