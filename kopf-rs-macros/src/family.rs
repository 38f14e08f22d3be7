//! The attributes as tables: what each is called, which options it has, which arguments its functions may ask for.
//!
//! One module per family, as in the framework. A new attribute is a row there, and a line in `lib.rs`, which lists them all.

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

/// Which attribute: a row in the table of its family.
pub(crate) struct Kind {
    /// The attribute's name.
    pub(crate) attribute: &'static str,
    pub(crate) family: &'static Family,
    /// What tells it from others of its family: an enum of the framework, and its variant.
    pub(crate) variant: Option<(&'static str, &'static str)>,
    /// The options that not all of the family have.
    pub(crate) own: &'static [Setting],
    /// An option that must be given, and the message where it is not.
    pub(crate) required: Option<(&'static str, &'static str)>,
    /// Whether its functions are handlers within handlers: their parents register them, for their own object.
    pub(crate) is_nested: bool,
}

/// What attributes have in common.
pub(crate) struct Family {
    /// The variant of the framework's `Declaration`.
    pub(crate) declaration: &'static str,
    /// The framework's type of its options.
    pub(crate) options: &'static str,
    /// Options that stand in a struct of their own.
    pub(crate) groups: &'static [Group],
    /// Options that are fields of the options.
    pub(crate) fields: &'static [Setting],
    /// The names of arguments that are recognised.
    pub(crate) arguments: &'static [&'static [&'static str]],
    /// Whether its handlers are for objects, which a selector names.
    pub(crate) has_object: bool,
    /// What its functions return.
    pub(crate) returns: Returns,
}

/// What functions return beside errors, and where that goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    /// A result, which goes to the status.
    Result,
    /// Keys and values, which go into an index.
    Entries,
    /// When the function is called again.
    Again,
}

/// Options that several families have: a field of their options, and its type.
pub(crate) struct Group {
    pub(crate) field: &'static str,
    pub(crate) ty: &'static str,
    pub(crate) settings: &'static [Setting],
}

/// One option: its name, and how it is written.
#[derive(Clone, Copy)]
pub(crate) struct Setting(pub(crate) &'static str, pub(crate) Form);

/// How an option is written.
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

/// The options that all attributes have.
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

/// The same before there is a client.
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

/// The same without the patch: of functions that change nothing.
const OBJECT_DATA: &[&str] = OBJECT_ARGUMENTS.split_last().expect("the patch").1;

impl Kind {
    pub(crate) fn of_attribute(name: &str) -> Option<&'static Self> {
        KINDS.into_iter().find(|kind| kind.attribute == name)
    }

    /// Whether the attribute names the resource.
    pub(crate) fn has_selector(&self) -> bool {
        self.family.has_object && !self.is_nested
    }

    /// The options the attribute has, selector keywords aside.
    pub(crate) fn settings(&self) -> impl Iterator<Item = &'static Setting> {
        let Family { groups, fields, .. } = self.family;
        let shared = groups.iter().flat_map(|group| group.settings);
        COMMON.iter().chain(shared).chain(*fields).chain(self.own)
    }

    /// Their names.
    pub(crate) fn options(&self) -> Vec<&'static str> {
        self.settings().map(|Setting(name, _)| *name).collect()
    }

    /// The names of arguments that are recognised.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        self.family.arguments.concat()
    }

    /// The framework's `Declaration`, of functions that give the selector and the options.
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
    /// How many fields the framework's type of its options has.
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

/// The type that a function returns.
fn returned_type(returned: &ReturnType) -> TokenStream {
    match returned {
        ReturnType::Default => quote!(()),
        ReturnType::Type(_, ty) => ty.to_token_stream(),
    }
}

/// A name of the framework, which the user's imports cannot change.
pub(crate) fn hidden(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The same tokens at another place: messages on them belong there.
pub(crate) fn at(span: Span, tokens: &TokenStream) -> TokenStream {
    let tokens = tokens.clone().into_iter().map(|mut token| {
        token.set_span(span);
        token
    });
    tokens.collect()
}

/// The option of whatever attribute.
pub(crate) fn form_of(option: &str) -> Option<Form> {
    let mut settings = KINDS.into_iter().flat_map(Kind::settings);
    let found = settings.find(|Setting(name, _)| *name == option);
    found.map(|Setting(_, form)| *form)
}

/// All names of arguments, of whatever attribute.
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
