//! Checks that closures support all features of annotated functions: compares the tables of the attributes with the
//! options in the framework's sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, iter};

use syn::{Expr, ExprLit, ImplItem, Item, Lit, Type, Visibility};

use crate::KINDS;
use crate::family::{Kind, all_arguments};

type Names = BTreeSet<String>;

/// Parses the sources of the framework.
fn sources() -> Vec<syn::File> {
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../kopf-rs/src")];
    let mut files: Vec<PathBuf> = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(path).unwrap();
            open.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|it| it == "rs") {
            files.push(path);
        }
    }
    let parsed = files
        .iter()
        .map(|it| syn::parse_file(&fs::read_to_string(it).unwrap()));
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
        ImplItem::Fn(it) if matches!(it.vis, Visibility::Public(_)) => {
            Some(it.sig.ident.to_string())
        }
        _ => None,
    });
    functions.collect()
}

fn is(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(ty) if ty.path.is_ident(name))
}

/// Returns the options that a closure can have in place of each attribute: the rows of `handler/attribute.rs`.
fn rows(sources: &[syn::File]) -> BTreeMap<String, Names> {
    let items = sources.iter().flat_map(|file| &file.items);
    let constants: Vec<_> = items
        .filter_map(|item| match item {
            Item::Const(it) => Some((it.ident.to_string(), &*it.expr, &*it.ty)),
            _ => None,
        })
        .collect();
    let attributes = constants.iter().filter(|(_, _, ty)| is(ty, "Attribute"));
    let rows = attributes.map(|(_, row, _)| {
        let Expr::Struct(row) = row else {
            panic!("a row of attributes is a struct");
        };
        let mut words = row
            .fields
            .iter()
            .map(|field| words(&field.expr, &constants));
        let name = words.next().unwrap().concat();
        (name, words.flatten().collect())
    });
    rows.collect()
}

/// Returns the texts of nested lists; resolves constants that stand for lists.
fn words(list: &Expr, constants: &[(String, &Expr, &Type)]) -> Vec<String> {
    match list {
        Expr::Reference(it) => words(&it.expr, constants),
        Expr::Array(it) => it
            .elems
            .iter()
            .flat_map(|it| words(it, constants))
            .collect(),
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => iter::once(text.value()).collect(),
        Expr::Path(it) => {
            let named = |(name, _, _): &&(String, &Expr, &Type)| it.path.is_ident(name);
            let (_, list, _) = constants.iter().find(named).unwrap();
            words(list, constants)
        }
        _ => panic!("a list of options has texts and names of lists"),
    }
}

/// Returns the method of `Callback` for an option; `None` for the id, which is the closure's first argument.
fn method(option: &str) -> Option<&str> {
    match option {
        "id" => None,
        "labels" => Some("label"),
        "annotations" => Some("annotation"),
        option => Some(option),
    }
}

#[test]
fn closures_have_all_options_and_arguments_of_attributes() {
    let sources = sources();
    let rows = rows(&sources);
    let registered: Vec<_> = KINDS.iter().filter(|kind| !kind.is_nested).collect();
    let attributes: Names = registered.iter().map(|it| it.attribute.into()).collect();
    assert_eq!(rows.keys().cloned().collect::<Names>(), attributes);
    for kind in &registered {
        let options = kind.options();
        let options = options.into_iter().filter(|it| *it != "param");
        let wanted: Names = options.filter_map(method).map(str::to_owned).collect();
        assert_eq!(rows[kind.attribute], wanted, "of {}", kind.attribute);
    }
    let of_callback = methods(&sources, "Callback");
    let options = KINDS.into_iter().flat_map(Kind::options).filter_map(method);
    let lacking: Vec<_> = options.filter(|it| !of_callback.contains(*it)).collect();
    assert!(lacking.is_empty(), "`Callback` lacks {lacking:?}");
    let mut of_context = methods(&sources, "Cause");
    of_context.extend(methods(&sources, "Context"));
    let arguments = all_arguments().into_iter();
    let lacking: Vec<_> = arguments.filter(|it| !of_context.contains(*it)).collect();
    assert!(lacking.is_empty(), "`Cause` and `Context` lack {lacking:?}");
}
