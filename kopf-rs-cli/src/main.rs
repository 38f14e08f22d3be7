//! The program `kopf-rs`.

fn main() {}
