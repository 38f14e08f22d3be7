//! The example `MyIngress` as a program: `it myingress::` starts it.

kopf_rs::main!(myingress);
