//! No name of the user's breaks an expansion, and no import is needed.

#![expect(dead_code, reason = "these names are only there to be in the way")]

type Option<T> = std::vec::Vec<T>;
struct String;
struct Result;
struct Box;
struct Arc;
struct Vec;
fn call() {}

#[kopf_rs::on_create("kopfexamples", labels = {"app": "x"}, id = "begin")]
#[kopf_rs::on_resume("kopfexamples")]
async fn create_fn(name: &str) {
    let _ = name;
}

#[::kopf_rs::on_startup(param = 1, timeout = 5)]
fn begin(param: u8) {
    let _ = param;
}

#[test]
fn all_are_registered() {
    let registry = kopf_rs::Registry::in_module(module_path!()).unwrap();
    assert_eq!(registry.len(), 3);
}
