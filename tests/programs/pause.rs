//! What `kopf-rs freeze` and `kopf-rs resume` build and become. `it peering::` starts it.

fn main() -> std::process::ExitCode {
    kopf_rs::cli::pause()
}
