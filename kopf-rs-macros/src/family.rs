//! Tables of the attributes: their names, their options, and the arguments that their functions can take.
//!
//! There is one module per family, as in the framework. A new attribute needs a row there, and a line in `lib.rs`,
//! which lists all of them.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ReturnType;
use syn::spanned::Spanned;

use crate::KINDS;

pub(crate) mod activity;
pub(crate) mod admission;
pub(crate) mod background;
pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod index;
pub(crate) mod reconcile;

/// An attribute: a row in the table of its family.
pub(crate) struct Kind {
    /// The attribute's name.
    pub(crate) attribute: &'static str,
    pub(crate) family: &'static Family,
    /// The attribute's variant within its family: an enum of the framework, and its variant.
    pub(crate) variant: Option<(&'static str, &'static str)>,
    /// The options that only this attribute of the family has.
    pub(crate) own: &'static [Setting],
    /// A required option, and the error message if it is missing.
    pub(crate) required: Option<(&'static str, &'static str)>,
    /// True for sub-handlers, which their parents register for their own object.
    pub(crate) is_nested: bool,
}

/// The common properties of a family's attributes.
pub(crate) struct Family {
    /// The variant of the framework's `Declaration`.
    pub(crate) declaration: &'static str,
    /// The framework's type for the options.
    pub(crate) options: &'static str,
    /// Options in a nested struct.
    pub(crate) groups: &'static [Group],
    /// Options that are direct fields.
    pub(crate) fields: &'static [Setting],
    /// The names of arguments with a special meaning.
    pub(crate) arguments: &'static [&'static [&'static str]],
    /// True if the handlers handle objects, which a selector names.
    pub(crate) has_object: bool,
    /// The use of the return value.
    pub(crate) returns: Returns,
}

/// The use of a function's return value, apart from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A result, which is stored in the status.
    Result,
    /// Keys and values, which are stored in an index.
    Entries,
    /// A requeue request.
    Again,
}

/// Options that several families share: the field of their options struct, and its type.
pub(crate) struct Group {
    pub(crate) field: &'static str,
    pub(crate) ty: &'static str,
    pub(crate) settings: &'static [Setting],
}

/// One option: its name, and its notation.
#[derive(Clone, Copy)]
pub(crate) struct Setting(pub(crate) &'static str, pub(crate) Form);

/// The notation of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `optional`
    Flag,
    /// `param = ANY`
    Any,
    /// `id = "text"`
    Id,
    /// `errors = permanent`
    Errors,
    /// `timeout = 30`
    Seconds,
    /// `interval = 30`, `interval = |cause| ..`
    Pause,
    /// `schedule = "0 3 * * *"`
    Schedule,
    /// `zone = "Europe/Kyiv"`
    Zone,
    /// `retries = 3`
    Count,
    /// `field = "spec.size"`
    Field,
    /// `value = PRESENT`
    Criterion,
    /// `labels = {"app": "x"}`
    Map,
    /// `when = |cause| ..`
    Predicate,
    /// `owns = [Deployment, "services"]`
    Kinds,
    /// `operations = [CREATE, UPDATE]`
    Operations,
    /// `subresource = "status"`
    Text,
    /// `ignore_failures`, `ignore_failures = false`
    Choice,
    /// `watches = [(Secret, |it| ..)]`
    Targets,
}

/// Keywords that select resources.
pub(crate) const SELECTOR_KEYS: [&str; 7] = [
    "group", "version", "kind", "plural", "singular", "shortcut", "category",
];

/// The options of all attributes.
pub(crate) const COMMON: &[Setting] = &[Setting("id", Form::Id), Setting("param", Form::Any)];

const RETRY: Group = Group {
    field: "retry",
    ty: "RetryOptions",
    settings: &[
        Setting("errors", Form::Errors),
        Setting("timeout", Form::Seconds),
        Setting("retries", Form::Count),
        Setting("backoff", Form::Seconds),
    ],
};

const FILTERS: Group = Group {
    field: "filters",
    ty: "Filters",
    settings: &[
        Setting("labels", Form::Map),
        Setting("annotations", Form::Map),
        Setting("when", Form::Predicate),
        Setting("value", Form::Criterion),
    ],
};

const FIELD: Setting = Setting("field", Form::Field);

const COMMON_ARGUMENTS: &[&str] = &[
    "memo", "logger", "param", "retry", "started", "runtime", "client",
];

/// The common arguments before a client exists.
const CLIENTLESS_ARGUMENTS: &[&str] = &["memo", "logger", "param", "retry", "started", "runtime"];

const OBJECT_ARGUMENTS: &[&str] = &[
    "body",
    "object",
    "spec",
    "meta",
    "status",
    "uid",
    "name",
    "namespace",
    "labels",
    "annotations",
    "resource",
    "patch",
];

/// The arguments of objects without the patch, for functions that must not change the object.
const OBJECT_DATA: &[&str] = OBJECT_ARGUMENTS.split_last().expect("the patch").1;

impl Kind {
    pub(crate) fn of_attribute(name: &str) -> Option<&'static Self> {
        KINDS.into_iter().find(|kind| kind.attribute == name)
    }

    /// Returns whether the attribute names the resource.
    pub(crate) fn has_selector(&self) -> bool {
        self.family.has_object && !self.is_nested
    }

    /// Returns the options of the attribute, except the selector's keywords.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        let Family { groups, fields, .. } = self.family;
        let shared = groups.iter().flat_map(|group| group.settings);
        COMMON.iter().chain(shared).chain(*fields).chain(self.own)
    }

    /// Returns the names of the options.
    pub(crate) fn options(&self) -> Vec<&'static str> {
        self.settings().map(|Setting(name, _)| *name).collect()
    }

    /// Returns the names of arguments with a special meaning.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        self.family.arguments.concat()
    }

    /// Returns the framework's `Declaration`, from functions that build the selector and the options.
    pub(crate) fn declaration(
        &self,
        selector: Option<&TokenStream>,
        options: &TokenStream,
        returned: &ReturnType,
        k: &TokenStream,
    ) -> TokenStream {
        let declaration = hidden(self.family.declaration);
        let variant = self.variant.map(|(ty, variant)| {
            let (ty, variant) = (hidden(ty), hidden(variant));
            quote!(#k::#ty::#variant,)
        });
        let selector = selector.map(|selector| quote!(#selector,));
        let index = (self.family.returns == Returns::Entries).then(|| {
            let ty = returned_type(returned);
            quote_spanned!(ty.span()=> , #k::IndexType::of_function::<#ty>())
        });
        quote!(#k::Declaration::#declaration(#variant #selector || #options #index))
    }
}

impl Family {
    /// Returns the number of fields of the framework's options struct.
    pub(crate) fn size(&self) -> usize {
        let mut own = Vec::new();
        for kind in KINDS
            .into_iter()
            .filter(|kind| std::ptr::eq(kind.family, self))
        {
            own.extend(kind.own.iter().map(|Setting(name, _)| *name));
        }
        own.sort_unstable();
        own.dedup();
        self.groups.len() + self.fields.len() + own.len()
    }
}

/// Returns the return type of a function.
fn returned_type(returned: &ReturnType) -> TokenStream {
    match returned {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    }
}

/// Returns a hygienic identifier that the user's imports cannot shadow.
pub(crate) fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// Returns the same tokens with another span, so that compiler messages point there.
pub(crate) fn at(span: Span, tokens: &TokenStream) -> TokenStream {
    let tokens = tokens.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    tokens.collect()
}

/// Returns the notation of an option, in any attribute.
pub(crate) fn form_of(option: &str) -> Option<Form> {
    let mut settings = KINDS.into_iter().flat_map(Kind::settings);
    let found = settings.find(|Setting(name, _)| *name == option);
    found.map(|Setting(_, form)| *form)
}

/// Returns the names of all arguments of all attributes.
pub(crate) fn all_arguments() -> Vec<&'static str> {
    let mut all = Vec::new();
    for name in KINDS.into_iter().flat_map(Kind::arguments) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// `#[on_update] and #[on_field]`
pub(crate) fn attributes_with(has: impl Fn(&Kind) -> bool) -> String {
    let names: Vec<_> = KINDS
        .into_iter()
        .filter(|kind| has(kind))
        .map(|kind| format!("#[{}]", kind.attribute))
        .collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
