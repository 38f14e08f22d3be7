//! The handlers of a history: their filters and options, in one place for the operator and for the checks.
//!
//! This module does not know how or why they are called.

use kopf_rs::{Callback, PRESENT, Registry};
use serde_json::{Value, json};

/// The possible roles. One entry may be several handlers with the same id.
const MENU: [&str; 22] = [
    "create c",
    "create cc children",
    "create cl labelled",
    "create c2 retries=2",
    "create c3 fails=2",
    "create cg grows",
    "update u",
    "update uu children",
    "update uv children=spec.b",
    "update ul labelled",
    "update ua field=spec.a",
    "update us small",
    "update ut timeout=5",
    "update up patches",
    "field f field=spec.a",
    "field ff field=spec.b children",
    "field f2 field=spec.a new=2",
    "field fl field=spec.b labelled",
    "create x; update x; resume x",
    "resume r",
    "delete d",
    "event e",
];

/// Deletion handlers, which are picked less often because they change the life of the whole object.
const LATE: [&str; 3] = ["delete dl labelled", "delete o optional", "delete d2 retries=2"];

/// Always present, so that every object is in the scope of a handler.
const ALWAYS: &str = "create z";

/// One handler.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one word of the menu")]
pub(super) struct Role {
    /// `create`, `update`, `field`, `resume`, `delete` or `event`.
    pub(super) on: &'static str,
    pub(super) id: String,
    name: &'static str,
    pub(super) field: Option<&'static str>,
    /// The filter accepts only objects with the label `tier`.
    labelled: bool,
    /// The filter accepts only objects whose `spec.b` is not 2.
    small: bool,
    /// The filter accepts only changes to this value.
    new: Option<i64>,
    pub(super) retries: Option<u32>,
    pub(super) timeout: Option<u32>,
    /// The number of first attempts that fail with a temporary error.
    pub(super) fails: u32,
    pub(super) optional: bool,
    /// True if it has two sub-handlers.
    pub(super) children: bool,
    /// The field of the second sub-handler.
    of_second: Option<&'static str>,
    /// True if it is a sub-handler.
    pub(super) is_child: bool,
    /// True if it sets `spec.c` to the value of `spec.a`.
    pub(super) patches: bool,
    /// True if it appends its name to `spec.list` with a patch function.
    pub(super) grows: bool,
}

/// The handlers of one operator.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    pub(super) roles: Vec<Role>,
    words: Vec<&'static str>,
}

impl Roles {
    /// Picks at most `size` entries of the menu; `pick` returns a number below its argument.
    pub(super) fn of(size: usize, mut pick: impl FnMut(usize) -> usize) -> Self {
        let mut words = vec![ALWAYS];
        let mut menu: Vec<&str> = MENU.to_vec();
        if pick(3) == 0 {
            menu.extend(LATE);
        }
        for _ in 0..=pick(size + 1) {
            words.push(menu.remove(pick(menu.len())));
        }
        Self::of_words(words)
    }

    /// Parses handlers in the words of the menu.
    pub(super) fn parse(words: &'static str) -> Self {
        Self::of_words(vec![words])
    }

    fn of_words(words: Vec<&'static str>) -> Self {
        let roles = words.iter().flat_map(|it| it.split("; "));
        Self { roles: roles.map(Role::parse).collect(), words }
    }

    /// Returns a registry of all handlers, each with the callback that `call` returns.
    pub(super) fn registry(
        &self,
        selector: (&str, &'static str, &'static str),
        call: impl Fn(&Role) -> Callback,
    ) -> Registry {
        let add = |registry: Registry, role: &Role| {
            let callback = role.dressed(call(role));
            match role.on {
                "create" => registry.on_create(selector, callback),
                "update" => registry.on_update(selector, callback),
                "field" => registry.on_field(selector, callback),
                "resume" => registry.on_resume(selector, callback),
                "delete" => registry.on_delete(selector, callback),
                "event" => registry.on_event(selector, callback),
                other => panic!("nothing is declared by `{other}`"),
            }
        };
        self.roles.iter().fold(Registry::new(), add)
    }

    /// Returns whether some handler requires a finalizer on objects with this essence.
    pub(super) fn demands_finalizer(&self, essence: &Value) -> bool {
        let mandatory = |role: &&Role| role.on == "delete" && !role.optional;
        let mut mandatory = self.roles.iter().filter(mandatory);
        mandatory.any(|role| role.accepts(essence))
    }
}

impl std::fmt::Display for Roles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words.join("; "))
    }
}

impl Role {
    fn parse(text: &'static str) -> Self {
        let mut words = text.split(' ');
        let mut word = || words.next().expect("a kind and a name");
        let mut role = Self { on: word(), name: word(), ..Self::default() };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || value.parse::<u32>().expect("a number");
            match key {
                "field" => role.field = Some(value),
                "new" => role.new = Some(number().into()),
                "retries" => role.retries = Some(number()),
                "timeout" => role.timeout = Some(number()),
                "fails" => role.fails = number(),
                "labelled" => role.labelled = true,
                "small" => role.small = true,
                "optional" => role.optional = true,
                "children" => {
                    role.children = true;
                    role.of_second = Some(value).filter(|it| !it.is_empty());
                }
                "patches" => role.patches = true,
                "grows" => role.grows = true,
                other => panic!("no handler is `{other}`"),
            }
        }
        role.id = match role.field {
            Some(field) => format!("{}/{field}", role.name),
            None => role.name.to_owned(),
        };
        role
    }

    /// Returns the role of a sub-handler, with the filters of its parent.
    pub(super) fn child(&self, name: &str) -> Self {
        Self {
            id: format!("{}/{name}", self.id),
            children: false,
            is_child: true,
            patches: false,
            grows: false,
            retries: None,
            timeout: None,
            fails: 0,
            of_second: None,
            field: self.of_second.filter(|_| name == "two").or(self.field),
            ..self.clone()
        }
    }

    /// Returns the field of a sub-handler, if it differs from its parent's.
    pub(super) fn own_field(&self, parent: &Self) -> Option<&'static str> {
        self.field.filter(|_| self.field != parent.field)
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn dressed(&self, mut callback: Callback) -> Callback {
        if let Some(field) = self.field {
            callback = callback.field(field);
        }
        if let Some(new) = self.new {
            callback = callback.new(new);
        }
        if let Some(retries) = self.retries {
            callback = callback.retries(retries);
        }
        if let Some(timeout) = self.timeout {
            callback = callback.timeout(timeout);
        }
        if self.labelled {
            callback = callback.label("tier", PRESENT);
        }
        if self.small {
            callback = callback.when(|cause| cause.body().spec()["b"] != 2);
        }
        if self.optional {
            callback = callback.optional();
        }
        callback
    }

    /// Returns whether its filters accept an object with this essence.
    pub(super) fn accepts(&self, essence: &Value) -> bool {
        let labelled = !self.labelled || !essence["labels"]["tier"].is_null();
        labelled && (!self.small || essence["spec"]["b"] != 2)
    }

    /// Returns whether its filters accept a change to `new`.
    pub(super) fn wants(&self, new: &Value) -> bool {
        self.new.is_none_or(|wanted| *new == wanted)
    }

    /// Returns whether it accepts only changes to one value.
    pub(super) fn new_only(&self) -> bool {
        self.new.is_some()
    }

    /// Returns whether it follows changes for as long as the object lives.
    pub(super) fn reacts(&self) -> bool {
        matches!(self.on, "update" | "field")
    }

    /// Returns whether it has no filters.
    pub(super) fn is_plain(&self) -> bool {
        !self.labelled && !self.small && self.new.is_none()
    }

    /// Returns the part of an essence that it watches.
    pub(super) fn scope(&self, essence: &Value) -> Value {
        match self.field {
            Some(field) => essence[field.split('.').next().unwrap_or_default()]
                [field.split('.').next_back().unwrap_or_default()]
            .clone(),
            None => essence.clone(),
        }
    }
}

/// Returns the essence of an object, or of a handler's argument: without the parts that operators keep there.
pub(super) fn essence(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let filled = |value: &Value| match value {
        Value::Object(fields) if fields.is_empty() => Value::Null,
        other => other.clone(),
    };
    json!({
        "spec": filled(&object["spec"]),
        "labels": filled(&metadata["labels"]),
        "note": metadata["annotations"]["note"],
    })
}
