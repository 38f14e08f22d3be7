//! The example as a program: `it accounts::` starts it.

kopf_rs::main!(voteconfig);
