//! The annotated function: syntax in, a function that can be called out, all mistakes gathered.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::visit_mut::{self, VisitMut};
use syn::{
    FnArg, GenericArgument, GenericParam, ItemFn, Lifetime, Pat, PatType, PathArguments,
    ReturnType, Safety, Signature, Type, TypeFnPtr, TypeGroup, TypeParen,
};

use crate::fallback::Mistakes;
use crate::family::{Kind, all_arguments, attributes_with};
use crate::hint::{did_you_mean, slip_of};

/// A function that can be called with arguments made for it.
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) is_async: bool,
    pub(crate) arguments: Vec<Argument>,
}

/// One parameter.
pub(crate) enum Argument {
    /// The patch: the only one that can be changed.
    Patch,
    /// Kopf's name: the marker type, and how it is received.
    Named(Ident, Received),
    /// Resolved by type.
    Injected(Type),
}

/// How the value of a named argument is received. The type is the one without `&` and `Option`.
pub(crate) enum Received {
    Owned(Type),
    OwnedIfAny(Type),
    Lent(Type),
    LentIfAny(Type),
}

impl Function {
    /// Read the signature; take the attributes that are ours off its parameters.
    pub(crate) fn read(item: &mut ItemFn, kinds: &[&Kind], mistakes: &mut Mistakes) -> Self {
        check_signature(&item.sig, mistakes);
        let mut arguments = Vec::new();
        let mut patches = 0;
        for input in &mut item.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let message = "a handler is a function of its own: it cannot have `self`; what methods would share is given to the operator and received as `State<T>`";
                    mistakes.at(receiver, message);
                }
                FnArg::Typed(typed) => {
                    let argument = read_argument(typed, kinds, mistakes);
                    patches += usize::from(matches!(argument, Some(Argument::Patch)));
                    if patches > 1 {
                        mistakes.at(&*typed, "there is only one patch: ask for it once");
                        patches = 1;
                    }
                    arguments.extend(argument);
                }
            }
        }
        Self {
            name: item.sig.ident.clone(),
            is_async: item.sig.asyncness.is_some(),
            arguments,
        }
    }

    /// The type in which the function wants its `param`, and whether it can do without.
    pub(crate) fn param(&self) -> Option<(&Type, bool)> {
        self.arguments.iter().find_map(|argument| match argument {
            Argument::Named(name, received) if name == "param" => {
                let optional = matches!(received, Received::OwnedIfAny(_) | Received::LentIfAny(_));
                Some((received.ty(), optional))
            }
            _ => None,
        })
    }
}

fn check_signature(signature: &Signature, mistakes: &mut Mistakes) {
    if let Some(token) = &signature.constness {
        mistakes.at(token, "a handler cannot be `const`: remove it");
    }
    if let Safety::Unsafe(token) = &signature.safety {
        mistakes.at(
            token,
            "a handler cannot be `unsafe`: make it safe, with an `unsafe` block inside",
        );
    }
    if let Some(abi) = &signature.abi {
        mistakes.at(abi, "a handler is called from Rust only: remove `extern`");
    }
    if let Some(variadic) = &signature.variadic {
        mistakes.at(variadic, "a handler cannot take `...`: name each argument");
    }
    if let ReturnType::Type(_, ty) = &signature.output
        && let Type::Never(never) = &**ty
    {
        mistakes.at(
            never,
            "a handler must come to an end: return `HandlerResult` instead of `!`",
        );
    }
    for param in &signature.generics.params {
        match param {
            GenericParam::Lifetime(_) => {}
            GenericParam::Type(param) => {
                let message = format!(
                    "a handler cannot be generic: write the type instead of `{}`",
                    param.ident
                );
                mistakes.at(param, message);
            }
            GenericParam::Const(param) => {
                let message = format!(
                    "a handler cannot be generic: write the value instead of `{}`",
                    param.ident
                );
                mistakes.at(param, message);
            }
        }
    }
    if let Some(clause) = &signature.generics.where_clause {
        mistakes.at(
            clause,
            "a handler has nothing to put bounds on: remove the `where` clause",
        );
    }
}

fn read_argument(
    typed: &mut PatType,
    kinds: &[&Kind],
    mistakes: &mut Mistakes,
) -> Option<Argument> {
    let renaming = take_renaming(typed, mistakes);
    if let Some(cfg) = typed
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("cfg"))
    {
        mistakes.at(
            cfg,
            "an argument cannot depend on `cfg`: put it on the whole function",
        );
    }
    let name = plain_name(&typed.pat, mistakes)?;
    let mut ty = (*typed.ty).clone();
    Repeatable.visit_type_mut(&mut ty);
    if !can_be_named(&ty, mistakes) {
        return None;
    }
    let known = match renaming {
        Some(Renaming::Inject) => None,
        Some(Renaming::From(datum)) => {
            let Some(known) = known_name(&datum.unraw().to_string()) else {
                mistakes.at(&datum, unknown_datum(&datum));
                return None;
            };
            Some((known, datum))
        }
        None => match resolve(&name) {
            Ok(known) => known.map(|known| (known, name.clone())),
            Err(message) => {
                mistakes.at(&name, message);
                return None;
            }
        },
    };
    match known {
        None => injected(ty, typed, mistakes),
        Some((known, written)) => named(known, &written, ty, kinds, mistakes),
    }
}

// === names ===

/// The datum called `name`, with the underscores of unused arguments ignored.
fn known_name(name: &str) -> Option<&'static str> {
    let name = name.trim_start_matches('_');
    let name = if name == "type" { "event_type" } else { name };
    all_arguments().into_iter().find(|known| *known == name)
}

/// A datum, or `None` for a name of the user's own.
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

fn unknown_datum(datum: &Ident) -> String {
    let text = datum.unraw().to_string();
    let hint = did_you_mean(&text, &all_arguments());
    let arguments = format!("\narguments: {}", all_arguments().join(", "));
    let advice = if hint.is_empty() { arguments } else { hint };
    format!("there is no handler argument `{text}`{advice}")
}

enum Renaming {
    /// `#[from(spec)]`
    From(Ident),
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
    let datum = attribute.parse_args_with(Ident::parse_any);
    if datum.is_err() {
        mistakes.at(
            &attribute,
            "expected the name of an argument: `#[from(spec)]`",
        );
    }
    datum.ok().map(Renaming::From)
}

fn plain_name(pattern: &Pat, mistakes: &mut Mistakes) -> Option<Ident> {
    match pattern {
        Pat::Ident(pattern) if pattern.by_ref.is_none() && pattern.subpat.is_none() => {
            Some(pattern.ident.clone())
        }
        Pat::Wild(wild) => {
            let message = "the name says what the argument is: write it with an underscore in front, such as `_spec`";
            mistakes.at(wild, message);
            None
        }
        _ => {
            let message = "the name says what the argument is: take it by a plain name and destructure it inside the function";
            mistakes.at(pattern, message);
            None
        }
    }
}

// === types ===

/// Makes a type one that can be repeated inside the expansion: the user's lifetimes do not exist there, and the invisible groups that
/// `macro_rules!` puts around types would hide what they are.
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
    // Its lifetimes may be its own.
    fn visit_type_fn_ptr_mut(&mut self, _: &mut TypeFnPtr) {}
}

fn can_be_named(ty: &Type, mistakes: &mut Mistakes) -> bool {
    match ty {
        Type::ImplTrait(ty) => {
            mistakes.at(
                ty,
                "the type says what the argument is made into: write a type instead of `impl`",
            );
            false
        }
        Type::Infer(ty) => {
            mistakes.at(ty, "the type says what the argument is made into: write it");
            false
        }
        _ => true,
    }
}

fn injected(ty: Type, typed: &PatType, mistakes: &mut Mistakes) -> Option<Argument> {
    if let Type::Reference(reference) = &ty
        && let Some(token) = &reference.mutability
    {
        let message = format!(
            "only `patch: &mut Patch` can be changed: take `{}` otherwise",
            quote::quote!(#typed)
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
    let lacking = kinds
        .iter()
        .filter(|kind| !kind.arguments().contains(&name));
    for kind in lacking {
        mistakes.at(written, not_here(name, kind));
    }
    let mutable = matches!(&ty, Type::Reference(reference) if reference.mutability.is_some());
    if name == "patch" {
        if !mutable {
            mistakes.at(
                &ty,
                "the patch is there to be filled: take it as `&mut Patch`",
            );
        }
        return Some(Argument::Patch);
    }
    if mutable {
        let advice = if name == "memo" {
            "take `Memo`, which can be filled as it is"
        } else {
            "what is to be changed on the object goes into `patch: &mut Patch`"
        };
        mistakes.at(
            &ty,
            format!("`{name}` cannot be changed in place: {advice}"),
        );
        return None;
    }
    let received = received(ty);
    if let ("event_type", Received::Lent(ty)) = (name, &received) {
        mistakes.at(
            ty,
            "there is no type for objects seen in a listing: take `Option<&str>`, or `EventType`",
        );
    }
    Some(Argument::Named(
        Ident::new(name, written.span().resolved_at(Span::mixed_site())),
        received,
    ))
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
    if let Type::Reference(reference) = ty {
        return Received::Lent(*reference.elem);
    }
    match optional(&ty) {
        Some(Type::Reference(inner)) => Received::LentIfAny((*inner.elem).clone()),
        Some(inner) => Received::OwnedIfAny(inner.clone()),
        None => Received::Owned(ty),
    }
}

/// The `T` of `Option<T>`.
fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(path) = ty else { return None };
    let last = path
        .path
        .segments
        .last()
        .filter(|last| last.ident == "Option")?;
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

impl Received {
    /// The type without `&` and `Option`.
    pub(crate) fn ty(&self) -> &Type {
        let (Self::Owned(ty) | Self::OwnedIfAny(ty) | Self::Lent(ty) | Self::LentIfAny(ty)) = self;
        ty
    }
}
