//! Checks the tables of the attributes against the framework: closures have all arguments of annotated functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use kopf_rs_schedule::HandlerKind;
use syn::{ImplItem, Item, Type, Visibility};

use crate::KINDS;
use crate::family::all_arguments;
use crate::option::form_of;

type Names = BTreeSet<String>;

/// Parses the sources of the framework that implement `Cause` and `Context`.
fn sources() -> Vec<syn::File> {
    let framework = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kopf-rs/src");
    let mut open = vec![framework.join("handler"), framework.join("operator/given.rs")];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    let parsed = files.iter().map(|it| syn::parse_file(&fs::read_to_string(it).unwrap()));
    parsed.map(Result::unwrap).collect()
}

/// Returns the public methods of a type.
fn methods(sources: &[syn::File], of: &str) -> Names {
    let items = sources.iter().flat_map(|file| &file.items);
    let impls = items.filter_map(|item| match item {
        Item::Impl(it) if it.trait_.is_none() && is(&it.self_ty, of) => Some(&it.items),
        _ => None,
    });
    let functions = impls.flatten().filter_map(|item| match item {
        ImplItem::Fn(it) if matches!(it.vis, Visibility::Public(_)) => Some(it.sig.ident.to_string()),
        _ => None,
    });
    functions.collect()
}

fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(ty) if ty.path.is_ident(name))
}

#[test]
fn closures_have_all_arguments_of_attributes() {
    let sources = sources();
    let mut of_context = methods(&sources, "Cause");
    of_context.extend(methods(&sources, "Context"));
    let arguments = all_arguments().into_iter();
    let lacking: Vec<_> = arguments.filter(|it| !of_context.contains(*it)).collect();
    assert!(lacking.is_empty(), "`Cause` and `Context` lack {lacking:?}");
}

#[test]
fn the_attributes_are_those_of_the_framework() {
    let attributes = HandlerKind::ALL.iter().map(|it| it.attribute());
    assert!(attributes.eq(KINDS.iter().map(|it| it.attribute)));
    let mut options = HandlerKind::ALL.iter().flat_map(|it| it.options());
    assert_eq!(options.find(|it| form_of(it).is_none()), None);
}
