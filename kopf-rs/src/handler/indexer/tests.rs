//! Declares index functions, and asks for indices.

use serde_json::json;

use super::*;
use crate::handler::definition::ErrorsMode;
use crate::handler::definition::Handler;
use crate::handler::index::table::{Contribution, Table};
use crate::handler::registry::Registry;
use crate::handler::testing::{call, cause, myapp};

#[expect(clippy::unused_async, reason = "the signatures are what is tried")]
mod well {
    use crate::prelude::*;

    #[index("v1", "pods", labels = {"app": PRESENT}, retries = 3)]
    fn by_node(#[from(spec.node)] node: Option<String>, name: String) -> Option<(String, String)> {
        Some((node?, name))
    }

    #[index("demo.rtfm.co.ua", "v1", "myapps", id = "by_node", field = "spec.image")]
    #[index("v1", "nodes", id = "by_node")]
    async fn others(name: String) -> HandlerResult<Vec<(String, String)>> {
        if name.is_empty() {
            fail!("no name");
        }
        Ok(vec![("x".to_owned(), name)])
    }

    #[on_event("v1", "pods")]
    #[on_create("v1", "pods")]
    async fn reads(by_node: Index<String, String>, #[from(by_node)] other: &Index<String, String>) {
        assert_eq!(by_node.len(), other.len());
    }

    // An argument with one of Kopf's names is an index if its type is `Index`.
    #[index("v1", "pods")]
    fn labels() -> ((), u8) {
        ((), 1)
    }

    #[on_startup]
    fn starts(labels: &Index<(), u8>, _by_node: Index<String, String>) {
        assert!(labels.is_empty());
    }
}

mod badly {
    use crate::prelude::*;

    #[index("v1", "pods")]
    fn by_node() -> (String, u8) {
        (String::new(), 1)
    }

    #[index("v1", "nodes", id = "by_node")]
    fn by_name() -> (String, u16) {
        (String::new(), 1)
    }

    #[index("v1", "pods", id = "by_node")]
    fn again() -> (String, u8) {
        (String::new(), 1)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the signatures are what is tried")]
mod asking {
    use crate::prelude::*;

    #[index("v1", "pods")]
    fn by_node() -> (String, u8) {
        (String::new(), 1)
    }

    #[on_delete("v1", "pods")]
    #[on_event("v1", "pods")]
    fn misspelt(by_nodes: Index<String, u8>) {
        assert!(by_nodes.is_empty());
    }

    #[on_event("v1", "pods")]
    fn other(by_node: Index<String, Option<String>>) {
        assert!(by_node.is_empty());
    }

    #[on_event("v1", "pods")]
    fn unknown(something_else: Index<String, u8>) {
        assert!(something_else.is_empty());
    }
}

fn registry(module: &str) -> Registry {
    let module = format!("{}::{module}", module_path!());
    Registry::in_module(&module).unwrap_or_default()
}

fn named<'a>(registry: &'a Registry, id: &str) -> Vec<&'a Arc<Handler>> {
    let handlers = registry.handlers().iter();
    handlers.filter(|it| *it.id == *id).collect()
}

#[cfg(any(feature = "inventory", feature = "linkme"))]
#[test]
fn functions_of_one_id_feed_one_index() {
    let registry = registry("well");
    registry.check().unwrap();
    let functions = named(&registry, "by_node");
    assert_eq!(functions.len(), 3);
    for function in &functions {
        assert_eq!(function.index, Some(IndexType::of::<String, String>()));
        assert_eq!(function.errors(), ErrorsMode::Ignored);
    }
    assert_eq!(registry.indices().names().count(), 2);
}

#[cfg(any(feature = "inventory", feature = "linkme"))]
#[test]
fn returned_entries_reach_the_sink() {
    let registry = registry("well");
    let others = named(&registry, "by_node")[1];
    let call_of = cause(others, myapp());
    let (returned, _) = call(&call_of);
    assert!(matches!(returned, Ok(None)));
    let Subject::Index(subject) = &call_of.subject else {
        panic!("it is for an index");
    };
    let entries = subject.entries.take().unwrap();
    let entries = entries.downcast::<IndexUpdate<String, String>>();
    let Ok(IndexUpdate::Replaced(entries)) = entries.map(|it| *it) else {
        panic!("it has returned something else");
    };
    let mut table = Table::new();
    table.replace(1, &mut Contribution::default(), entries);
    let values = table.get("x").unwrap();
    let values: Vec<_> = values.iter().map(|(_, value)| value.clone()).collect();
    assert_eq!((table.len(), values), (1, vec!["example-app".to_owned()]));
    let (returned, _) = call(&cause(others, json!({"metadata": {}})));
    assert_eq!(returned.unwrap_err().to_string(), "no name");
}

#[cfg(any(feature = "inventory", feature = "linkme"))]
#[test]
fn handlers_get_indices_by_the_names_of_their_arguments() {
    let registry = registry("well");
    let mut call_of = cause(named(&registry, "reads")[0], myapp());
    let (returned, _) = call(&call_of);
    let message = returned.unwrap_err().to_string();
    assert!(message.starts_with("there is no index `by_node`"), "{message}");
    let index: Index<String, String> = [("a".to_owned(), "b".to_owned())].into();
    let given = Cause::of(json!({})).index("by_node", index.clone());
    call_of.cause.context = given.context.clone();
    assert!(call(&call_of).0.is_ok());
    assert_eq!((*given).index::<String, String>("by_node").unwrap().len(), 1);
    let other = (*given).index::<String, u8>("by_node").unwrap_err();
    assert_eq!(other.to_string(), "the index `by_node` is no Index<String, u8>");
}

#[cfg(any(feature = "inventory", feature = "linkme"))]
#[test]
fn indices_that_are_not_there_or_not_so_are_refused() {
    let module = format!("{}::badly", module_path!());
    let refused = Registry::in_module(&module).unwrap_err().to_string();
    for wanted in [
        "this function makes an `Index<String, u16>`, but the one at",
        "the handler id `by_node` is already used at",
    ] {
        assert!(refused.contains(wanted), "{refused}");
    }
    assert_eq!(refused.lines().count(), 2, "{refused}");
    let asking = registry("asking");
    assert_eq!(asking.len(), 5, "what is asked for may be elsewhere");
    let refused = asking.check().unwrap_err().to_string();
    for wanted in [
        "`misspelt` asks for the index `by_nodes`, but no function with #[index] has this id; did you mean `by_node`?",
        "`other` asks for the index `by_node` as `Index<String, Option<String>>`, but the function at",
        "`unknown` asks for the index `something_else`, but no function with #[index] has this id; an index is found by",
    ] {
        assert!(refused.contains(wanted), "{refused}");
    }
    assert_eq!(refused.lines().count(), 3, "{refused}");
}

#[cfg(any(feature = "inventory", feature = "linkme"))]
#[test]
fn an_index_may_be_called_as_another_argument_is() {
    let registry = registry("well");
    let starts = named(&registry, "starts")[0];
    let mut call_of = cause(starts, json!({}));
    let by_node: Index<String, String> = Index::default();
    let given = Cause::of(json!({})).index("labels", Index::<(), u8>::default()).index("by_node", by_node);
    call_of.cause.context = given.context.clone();
    assert!(call(&call_of).0.is_ok());
}

#[test]
fn closures_of_other_families_feed_no_index() {
    let registry = Registry::new()
        .index("pods", handler("a", |_| async { Ok(()) }))
        .on_event("pods", indexer("b", |_| ((), ())))
        .index("pods", indexer("c", |_| ((), ())).initial_delay(1));
    let refused = registry.check().unwrap_err().to_string();
    for wanted in [
        "index of handler `a`: the function of an index is made by `indexer` or `indexer_async`",
        "on_event of handler `b`: a function made by `indexer` belongs to `Registry::index`",
        "index of handler `c`: `initial_delay` is not an option of index",
    ] {
        assert!(refused.contains(wanted), "{refused}");
    }
}
