//! Parses the annotated function into a function that can be called, and collects all errors.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    FnArg, GenericArgument, GenericParam, ItemFn, Lifetime, Pat, PatType, PathArguments, ReturnType, Safety,
    Signature, Token, Type, TypeFnPtr, TypeGroup, TypeParen,
};

use crate::fallback::Mistakes;
use crate::family::{Kind, all_arguments, attributes_with};
use crate::hint::{did_you_mean_or, slip_of};

/// A function with the arguments to make for a call.
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    pub(crate) arguments: Vec<Argument>,
}

/// One parameter.
pub(crate) enum Argument {
    /// The mutable patch.
    Patch,
    /// The mutable status, with its type without `&mut`.
    Status(Type),
    /// An argument with one of Kopf's names: the marker type, and how it is received.
    Named(Ident, Received),
    /// A field of a stanza: its path, and how it is received.
    Field(Vec<Ident>, Received),
    /// An index: the name of the argument, its type without `&`, and whether it is borrowed.
    Index(Ident, Type, bool),
    /// An argument that is resolved by its type.
    Injected(Type),
}

/// How the value of a named argument is received.
pub(crate) struct Received {
    /// The type without `&` and `Option`.
    pub(crate) ty: Type,
    pub(crate) is_lent: bool,
    pub(crate) is_optional: bool,
}

impl Function {
    /// Parses the signature, and removes our attributes from its parameters.
    pub(crate) fn read(item: &mut ItemFn, kinds: &[&Kind], mistakes: &mut Mistakes) -> Self {
        check_signature(&item.sig, mistakes);
        let mut arguments = Vec::new();
        for input in &mut item.sig.inputs {
            let FnArg::Typed(typed) = input else {
                let message = "a handler is a function of its own: it cannot have `self`; give shared values to the operator, and take them as `State<T>`";
                mistakes.at(input, message);
                continue;
            };
            let Some(argument) = read_argument(typed, kinds, mistakes) else {
                continue;
            };
            if let Some(once) = argument.only_once()
                && arguments.iter().any(|it: &Argument| it.only_once() == Some(once))
            {
                mistakes.at(&*typed, once);
            }
            arguments.push(argument);
        }
        Self { name: item.sig.ident.clone(), is_async: item.sig.asyncness.is_some(), arguments }
    }

    /// Returns the variant of the framework's `Function`.
    pub(crate) fn way(&self) -> Ident {
        let way = if self.is_async { "Async" } else { "Blocking" };
        Ident::new(way, Span::mixed_site())
    }

    /// Returns the type of the argument `param`, and whether it is optional.
    pub(crate) fn param(&self) -> Option<(&Type, bool)> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Named(name, received) if name == "param" => Some((&received.ty, received.is_optional)),
            _ => None,
        })
    }

    /// Returns the position of the argument with the mutable status.
    pub(crate) fn status(&self) -> Option<usize> {
        let is_status = |it: &Argument| matches!(it, Argument::Status(_));
        self.arguments.iter().position(is_status)
    }

    /// Returns whether an argument is resolved by its type.
    pub(crate) fn takes_injected(&self) -> bool {
        let mut arguments = self.arguments.iter();
        arguments.any(|it| matches!(it, Argument::Injected(_) | Argument::Index(..)))
    }
}

pub(crate) fn check_signature(signature: &Signature, mistakes: &mut Mistakes) {
    mistakes.if_any(signature.constness.as_ref(), "a handler cannot be `const`: remove it");
    if let Safety::Unsafe(token) = &signature.safety {
        mistakes.at(token, "a handler cannot be `unsafe`: make it safe, with an `unsafe` block inside");
    }
    mistakes.if_any(signature.abi.as_ref(), "a handler is called from Rust only: remove `extern`");
    mistakes.if_any(signature.variadic.as_ref(), "a handler cannot take `...`: name each argument");
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::Never(never) = &**ty
    {
        mistakes.at(never, "a handler must come to an end: return `HandlerResult` instead of `!`");
    }
    for param in &signature.generics.params {
        let (what, name) = match param {
            GenericParam::Lifetime(_) => continue,
            GenericParam::Type(param) => ("type", &param.ident),
            GenericParam::Const(param) => ("value", &param.ident),
        };
        mistakes.at(param, format!("a handler cannot be generic: write the {what} instead of `{name}`"));
    }
    let clause = signature.generics.where_clause.as_ref();
    mistakes.if_any(clause, "a handler has nothing to put bounds on: remove the `where` clause");
}

fn read_argument(typed: &mut PatType, kinds: &[&Kind], mistakes: &mut Mistakes) -> Option<Argument> {
    let renaming = take_renaming(typed, mistakes);
    if let Some(cfg) = typed.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        mistakes.at(cfg, "an argument cannot depend on `cfg`: put it on the whole function");
    }
    let name = plain_name(&typed.pat, mistakes)?;
    let mut ty = (*typed.ty).clone();
    Repeatable.visit_type_mut(&mut ty);
    if !can_be_named(&ty, mistakes) {
        return None;
    }
    let is_injected = matches!(renaming, Some(Renaming::Inject));
    if !is_injected && let Some((ty, is_lent)) = index_type(&ty) {
        let name = match renaming {
            Some(Renaming::From(path)) => path.into_iter().next_back().unwrap_or(name),
            _ => name,
        };
        return Some(Argument::Index(name, ty, is_lent));
    }
    let known = match renaming {
        Some(Renaming::Inject) => None,
        Some(Renaming::From(path)) if path.len() > 1 => {
            return field(path, ty, kinds, mistakes);
        }
        Some(Renaming::From(mut path)) => {
            let datum = path.remove(0);
            let Some(known) = known_name(&datum.unraw().to_string()) else {
                mistakes.at(&datum, unknown_datum(&datum));
                return None;
            };
            Some((known, datum))
        }
        None if is_of_events(&name, &ty) => None,
        None => match resolve(&name) {
            Ok(known) => known.map(|known| (known, name.clone())),
            Err(message) => {
                mistakes.at(&name, message);
                return None;
            }
        },
    };
    match known {
        None if !is_injected && kinds.iter().any(|kind| kind.is_nested()) && is_plain(&ty) => {
            let param = Ident::new("param", name.span().resolved_at(Span::mixed_site()));
            Some(Argument::Named(param, received(ty)))
        }
        None => injected(ty, typed, mistakes),
        Some((known, written)) => named(known, &written, ty, kinds, mistakes),
    }
}

// === names ===

/// Returns the datum with this name; ignores the leading underscores of unused arguments.
fn known_name(name: &str) -> Option<&'static str> {
    let name = name.trim_start_matches('_');
    let name = if name == "type" { "event_type" } else { name };
    all_arguments().into_iter().find(|known| *known == name)
}

/// Returns the datum; `None` for a name that Kopf does not define.
fn resolve(name: &Ident) -> Result<Option<&'static str>, String> {
    let text = name.unraw().to_string();
    if let Some(known) = known_name(&text) {
        return Ok(Some(known));
    }
    match slip_of(text.trim_start_matches('_'), &all_arguments()) {
        None => Ok(None),
        Some(near) => Err(format!(
            "unknown handler argument `{text}`; did you mean `{near}`?\nif it is a type of your own to be injected, say so: `#[inject] {text}: ...`"
        )),
    }
}

/// Returns whether the argument is `events: Events`, which is not a typo of `event`.
fn is_of_events(name: &Ident, ty: &Type) -> bool {
    let is_called_so = |path: &syn::Path| {
        let last = path.segments.last();
        last.is_some_and(|it| it.ident == "Events")
    };
    name == "events" && matches!(ty, Type::Path(ty) if is_called_so(&ty.path))
}

/// Parses the framework's `Index<K, V>` or `&Index<K, V>`; returns whether it is a reference. An `Index` with other
/// parameters, or from another module, is treated as any other type.
fn index_type(ty: &Type) -> Option<(Type, bool)> {
    if let Type::Reference(reference) = ty {
        let (ty, _) = index_type(&reference.elem)?;
        return Some((ty, true));
    }
    let Type::Path(path) = ty else { return None };
    let mut segments = path.path.segments.iter();
    let last = segments.next_back()?;
    let PathArguments::AngleBracketed(parameters) = &last.arguments else {
        return None;
    };
    let is_ours = segments.next().is_none_or(|first| first.ident.to_string().starts_with("kopf"));
    let is_index = last.ident == "Index" && parameters.args.len() == 2 && is_ours;
    is_index.then(|| (ty.clone(), false))
}

fn unknown_datum(datum: &Ident) -> String {
    let text = datum.unraw().to_string();
    let arguments = format!("\narguments: {}", all_arguments().join(", "));
    let advice = did_you_mean_or(&arguments, &text, &all_arguments());
    format!("there is no handler argument `{text}`{advice}")
}

enum Renaming {
    /// `#[from(spec)]`, `#[from(spec.size)]`
    From(Vec<Ident>),
    /// `#[inject]`
    Inject,
}

fn take_renaming(typed: &mut PatType, mistakes: &mut Mistakes) -> Option<Renaming> {
    let ours = |path: &syn::Path| path.is_ident("from") || path.is_ident("inject");
    let (found, rest) = std::mem::take(&mut typed.attrs)
        .into_iter()
        .partition::<Vec<_>, _>(|attribute| ours(attribute.path()));
    typed.attrs = rest;
    if let Some(second) = found.get(1) {
        mistakes.at(second, "one of `#[from(..)]` and `#[inject]` is enough");
    }
    let attribute = found.into_iter().next()?;
    if attribute.path().is_ident("inject") {
        return Some(Renaming::Inject);
    }
    let names = |input: ParseStream<'_>| {
        let names = Punctuated::<Ident, Token![.]>::parse_separated_nonempty_with;
        names(input, Ident::parse_any)
    };
    let path = attribute.parse_args_with(names);
    if path.is_err() {
        let message =
            "expected the name of an argument, or a field of one: `#[from(spec)]`, `#[from(spec.size)]`";
        mistakes.at(&attribute, message);
    }
    path.ok().map(|path| Renaming::From(path.into_iter().collect()))
}

fn plain_name(pattern: &Pat, mistakes: &mut Mistakes) -> Option<Ident> {
    let advice = match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            return Some(pattern.ident.clone());
        }
        Pat::Wild(_) => "write it with an underscore in front, such as `_spec`",
        _ => "take it by a plain name and destructure it inside the function",
    };
    mistakes.at(pattern, format!("the name of an argument selects its value: {advice}"));
    None
}

// === types ===

/// Makes a type repeatable inside the expansion: replaces the user's lifetimes, which do not exist there, and removes
/// the invisible groups that `macro_rules!` puts around types, which would hide their structure.
struct Repeatable;

impl VisitMut for Repeatable {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident != "static" {
            *lifetime = Lifetime::new("'_", lifetime.span());
        }
    }
    fn visit_type_mut(&mut self, ty: &mut Type) {
        while let Type::Group(TypeGroup { elem, .. }) | Type::Paren(TypeParen { elem, .. }) = ty {
            *ty = (**elem).clone();
        }
        visit_mut::visit_type_mut(self, ty);
    }
    // A function pointer can declare its own lifetimes.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}
}

fn can_be_named(ty: &Type, mistakes: &mut Mistakes) -> bool {
    let message = match ty {
        Type::ImplTrait(_) => {
            "the type of an argument decides its conversion: write a type instead of `impl`"
        }
        Type::Infer(_) => "the type says what the argument is made into: write it",
        _ => return true,
    };
    mistakes.at(ty, message);
    false
}

/// Returns whether the type cannot be made from a cause: references, and types of the standard library. A sub-handler
/// gets an argument of such a type from its parent.
fn is_plain(ty: &Type) -> bool {
    const PLAIN: [&str; 24] = [
        "String", "Value", "Map", "Vec", "BTreeMap", "HashMap", "BTreeSet", "HashSet", "Duration", "bool",
        "char", "f32", "f64", "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "isize",
    ];
    match ty {
        Type::Tuple(_) | Type::Array(_) => true,
        Type::Reference(reference) => {
            reference.mutability.is_none()
                && !matches!(&*reference.elem, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "Cause"))
        }
        Type::Path(path) => {
            let last = path.path.segments.last();
            optional(ty).is_some_and(is_plain)
                || last.is_some_and(|last| PLAIN.iter().any(|plain| last.ident == plain))
        }
        _ => false,
    }
}

/// The stanzas whose fields can be taken as arguments.
const STANZAS: [&str; 4] = ["body", "spec", "status", "meta"];

/// `#[from(spec.size)] size: u64`
fn field(path: Vec<Ident>, ty: Type, kinds: &[&Kind], mistakes: &mut Mistakes) -> Option<Argument> {
    let stanza = &path[0];
    let name = stanza.unraw().to_string();
    let Some(known) = STANZAS.into_iter().find(|known| *known == name) else {
        let message = format!("fields can be taken of {}, and not of `{name}`", STANZAS.join(", "));
        mistakes.at(stanza, message);
        return None;
    };
    for kind in kinds.iter().filter(|kind| !kind.arguments().contains(&known)) {
        mistakes.at(stanza, not_here(known, kind));
    }
    if matches!(&ty, Type::Reference(reference) if reference.mutability.is_some()) {
        let message = "changes of the object go into `patch: &mut Patch`";
        mistakes.at(&ty, message);
        return None;
    }
    Some(Argument::Field(path, received(ty)))
}

fn injected(ty: Type, typed: &PatType, mistakes: &mut Mistakes) -> Option<Argument> {
    if let Type::Reference(reference) = &ty
        && let Some(token) = &reference.mutability
    {
        let (name, elem) = (&typed.pat, &reference.elem);
        let text = |tokens: proc_macro2::TokenStream| tokens.to_string().replace(' ', "");
        let message = format!(
            "only `patch: &mut Patch` and `status: &mut Status<MyStatus>` can be changed: take `{}: &{}`",
            text(quote::quote!(#name)),
            text(quote::quote!(#elem))
        );
        mistakes.at(token, message);
        return None;
    }
    Some(Argument::Injected(ty))
}

fn named(
    name: &'static str,
    written: &Ident,
    ty: Type,
    kinds: &[&Kind],
    mistakes: &mut Mistakes,
) -> Option<Argument> {
    let lacking = kinds.iter().filter(|kind| !kind.arguments().contains(&name));
    for kind in lacking {
        mistakes.at(written, not_here(name, kind));
    }
    let mutable = matches!(&ty, Type::Reference(reference) if reference.mutability.is_some());
    if name == "patch" {
        if !mutable {
            mistakes.at(&ty, "handlers change the patch: take `patch: &mut Patch`");
        }
        return Some(Argument::Patch);
    }
    if name == "status" && is_status(&ty) {
        return changed_status(written, ty, kinds, mistakes);
    }
    if mutable {
        let advice = match name {
            "memo" => "take `Memo`, which needs no `&mut`",
            "logger" => "take `Logger`, which can be cloned",
            "warnings" => "take `&Warnings`, and add one by `warnings.push(..)`",
            "settings" => {
                "take `settings: StartupSettings`, and change them by `settings.change(|settings| ..)`"
            }
            "status" => {
                "take `status: &mut Status<MyStatus>`, of your type, or change it by `patch: &mut Patch`"
            }
            _ => "changes of the object go into `patch: &mut Patch`",
        };
        mistakes.at(&ty, format!("`{name}` cannot be changed in place: {advice}"));
        return None;
    }
    let received = received(ty);
    if let Some(advice) = advice_on_type(name, &received) {
        mistakes.at(&received.ty, advice);
        return None;
    }
    if name == "event_type" && received.is_lent && !received.is_optional {
        let message = "there is no type for objects seen in a listing: take `Option<&str>`, or `EventType`";
        mistakes.at(&received.ty, message);
    }
    Some(Argument::Named(Ident::new(name, written.span().resolved_at(Span::mixed_site())), received))
}

/// Returns whether the type is `Status<T>` or a reference to it. A user's type `Status` without parameters is treated
/// as any other type.
fn is_status(ty: &Type) -> bool {
    if let Some(inner) = optional(ty) {
        return is_status(inner);
    }
    match ty {
        Type::Reference(reference) => is_status(&reference.elem),
        Type::Path(path) => path.path.segments.last().is_some_and(|last| {
            last.ident == "Status" && matches!(last.arguments, PathArguments::AngleBracketed(_))
        }),
        _ => false,
    }
}

/// `status: &mut Status<T>`
fn changed_status(written: &Ident, ty: Type, kinds: &[&Kind], mistakes: &mut Mistakes) -> Option<Argument> {
    let fixed = kinds.iter().find(|kind| !kind.arguments().contains(&"patch"));
    if let Some(kind) = fixed {
        let message = format!(
            "handlers of #[{}] change no object: take `{written}: MyStatus`, or `{written}: &Value`",
            kind.attribute
        );
        mistakes.at(&ty, message);
        return None;
    }
    match ty {
        Type::Reference(reference) if reference.mutability.is_some() => {
            Some(Argument::Status(*reference.elem))
        }
        _ => {
            let message = format!(
                "a status that is changed is taken as `{written}: &mut Status<MyStatus>`; to read it only, take `{written}: MyStatus`"
            );
            mistakes.at(&ty, message);
            None
        }
    }
}

/// Suggests a type in place of an unsupported one, if the intention is clear.
fn advice_on_type(name: &str, received: &Received) -> Option<String> {
    let ty = last_name(&received.ty)?;
    let (why, instead) = match (name, ty.as_str()) {
        ("name" | "namespace" | "uid" | "activity", "String") if received.is_lent => {
            ("is lent as text", "&str".to_owned())
        }
        ("reason", "String") => ("is lent as text, or given as what it is", "Reason".into()),
        ("event_type", "String") => ("is lent as text, or given as what it is", "EventType".into()),
        ("retry", "i8" | "i16" | "i32" | "i64" | "i128" | "isize") => {
            ("counts attempts from 0", ty.replacen('i', "u", 1))
        }
        ("settings", "Settings") => (
            "is shared by the handlers of the startup: `settings.get()` copies, `settings.change(|settings| ..)` changes",
            "StartupSettings".into(),
        ),
        _ => return None,
    };
    let instead = if received.is_optional { format!("Option<{instead}>") } else { instead };
    Some(format!("`{name}` {why}: take `{name}: {instead}`"))
}

/// Returns the name of a type without its path; `None` if it has generic arguments.
fn last_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last()?;
    last.arguments.is_none().then(|| last.ident.to_string())
}

fn not_here(name: &str, kind: &Kind) -> String {
    let owners = attributes_with(|kind| kind.arguments().contains(&name));
    format!(
        "handlers of #[{}] have no `{name}`: it belongs to {owners}\narguments of #[{}]: {}",
        kind.attribute,
        kind.attribute,
        kind.arguments().join(", ")
    )
}

fn received(ty: Type) -> Received {
    let inner = optional(&ty).cloned();
    let is_optional = inner.is_some();
    match inner.unwrap_or(ty) {
        Type::Reference(lent) => Received { ty: *lent.elem, is_lent: true, is_optional },
        ty => Received { ty, is_lent: false, is_optional },
    }
}

/// Returns the `T` of `Option<T>`.
fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) if arguments.args.len() == 1 => {
            match arguments.args.first()? {
                GenericArgument::Type(inner) => Some(inner),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Argument {
    /// Returns the message for a function that takes it twice, if that makes no sense.
    fn only_once(&self) -> Option<&'static str> {
        match self {
            Self::Patch => Some("there is only one patch: ask for it once"),
            Self::Status(_) => Some("there is only one status: ask for it once"),
            Self::Named(name, _) if name == "param" => Some(
                "there is only one `param`: make a tuple or a struct of what the handler is to be given; a type of yours that is resolved by itself is marked `#[inject]`",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_of_others_is_a_type_as_any_other() {
        for (written, expected) in [
            ("Index<String, u32>", Some(false)),
            ("&Index<String, u32>", Some(true)),
            ("kopf_rs::Index<String, u32>", Some(false)),
            ("&kopf_rs::prelude::Index<String, u32>", Some(true)),
            ("indexmap::Index<String, u32>", None),
            ("&std::ops::Index<usize>", None),
            ("Index<usize>", None),
            ("Index", None),
        ] {
            let ty = syn::parse_str(written).unwrap();
            let is_reference = index_type(&ty).map(|(_, is_reference)| is_reference);
            assert_eq!(is_reference, expected, "{written}");
        }
    }
}
