//! Golden tests of expansions: `tests/expand/NAME.rs` is the input, and `NAME.expanded.rs` the expected expansion.
//!
//! `UPDATE_GOLDENS=1 cargo test -p kopf-rs-macros` overwrites the latter.

use std::fs;
use std::path::Path;

use quote::ToTokens;
use syn::{Item, ItemConst, Meta};

use crate::convert;
use crate::expand::expand;
use crate::family::Kind;
use crate::rule;

/// The attribute that declares no handler.
const CONVERT: &str = "on_convert";

#[test]
fn expansions_are_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expand");
    let mut cases = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".expanded.rs") {
            continue;
        }
        check(&path, &path.with_extension("expanded.rs"));
        cases += 1;
    }
    assert!(cases > 0, "no cases in {}", folder.display());
}

fn check(written: &Path, recorded: &Path) {
    let expanded = expand_file(&fs::read_to_string(written).unwrap());
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        fs::write(recorded, &expanded).unwrap();
    }
    let wanted = fs::read_to_string(recorded).unwrap_or_default();
    assert!(expanded == wanted, "{} differs; UPDATE_GOLDENS=1 records:\n{expanded}", recorded.display());
}

fn expand_file(source: &str) -> String {
    let mut file = syn::parse_file(source).unwrap();
    let items = std::mem::take(&mut file.items);
    for item in items {
        let tokens = expand_item(item);
        file.items.extend(syn::parse2::<syn::File>(tokens).unwrap().items);
    }
    prettyplease::unparse(&file)
}

fn expand_item(item: Item) -> proc_macro2::TokenStream {
    let mut function = match item {
        Item::Fn(function) => function,
        Item::Const(constant) => return expand_rule(constant),
        item => return item.to_token_stream(),
    };
    let kind =
        |attribute: &syn::Attribute| Kind::of_attribute(&attribute.path().segments.last()?.ident.to_string());
    let Some(first) = function.attrs.iter().position(|it| kind(it).is_some() || it.path().is_ident(CONVERT))
    else {
        return function.to_token_stream();
    };
    let outermost = function.attrs.remove(first);
    let arguments = match &outermost.meta {
        Meta::List(list) => list.tokens.clone(),
        _ => proc_macro2::TokenStream::new(),
    };
    if outermost.path().is_ident(CONVERT) {
        return convert::expand(arguments, &function.to_token_stream(), |_| (1, 1));
    }
    let kind = kind(&outermost).unwrap();
    expand(kind, arguments, &function.to_token_stream(), |_| (1, 1))
}

fn expand_rule(mut constant: ItemConst) -> proc_macro2::TokenStream {
    let attribute = constant.attrs.pop().expect("a rule");
    let arguments = attribute.meta.require_list().expect("arguments");
    let arguments = arguments.tokens.clone();
    rule::expand(arguments, &constant.to_token_stream(), |_| (1, 1))
}
