//! The handlers of a history: what each is for, and what its filters let pass, said once for the operator and for the checks.
//!
//! Must not know how they are called, nor what for.

use kopf_rs::{Callback, PRESENT, Registry};
use serde_json::{Value, json};

/// What may be roles. One entry may be several handlers of the same id.
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

/// Deletion handlers that are roles less often: they change the life of the whole object.
const LATE: [&str; 3] = [
    "delete dl labelled",
    "delete o optional",
    "delete d2 retries=2",
];

/// What is sure to be there: with it, every object is in somebody's scope.
const ALWAYS: &str = "create z";

/// One handler.
#[derive(Clone, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one word of the menu"
)]
pub(super) struct Role {
    /// `create`, `update`, `field`, `resume`, `delete` or `event`.
    pub(super) on: &'static str,
    pub(super) id: String,
    name: &'static str,
    pub(super) field: Option<&'static str>,
    /// Only for objects with the label `tier`.
    labelled: bool,
    /// Only for objects whose `spec.b` is not 2.
    small: bool,
    /// Only for changes to this value.
    new: Option<i64>,
    pub(super) retries: Option<u32>,
    pub(super) timeout: Option<u32>,
    /// It fails for a while at its first attempts, so many.
    pub(super) fails: u32,
    pub(super) optional: bool,
    /// It has two sub-handlers.
    pub(super) children: bool,
    /// The field of the second of them.
    of_second: Option<&'static str>,
    /// It is a sub-handler.
    pub(super) is_child: bool,
    /// It sets `spec.c` to what it sees in `spec.a`.
    pub(super) patches: bool,
    /// It adds itself to the list `spec.list`, by a patch function.
    pub(super) grows: bool,
}

/// The handlers of one operator.
#[derive(Clone, Debug)]
pub(super) struct Roles {
    pub(super) roles: Vec<Role>,
    words: Vec<&'static str>,
}

impl Roles {
    /// So many entries of the menu, or fewer; `pick` gives a number below the one it is given.
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

    /// Handlers in the words of the menu.
    pub(super) fn parse(words: &'static str) -> Self {
        Self::of_words(vec![words])
    }

    fn of_words(words: Vec<&'static str>) -> Self {
        let roles = words.iter().flat_map(|it| it.split("; "));
        Self {
            roles: roles.map(Role::parse).collect(),
            words,
        }
    }

    /// All handlers in a registry, each called as `call` says.
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

    /// Whether some handler holds objects of this essence until it has seen their deletion.
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
        let mut role = Self {
            on: word(),
            name: word(),
            ..Self::default()
        };
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

    /// A sub-handler, whose business is its parent's.
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

    /// The field of a sub-handler, where that is not its parent's.
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

    /// Whether an object of this essence is in its scope.
    pub(super) fn accepts(&self, essence: &Value) -> bool {
        let labelled = !self.labelled || !essence["labels"]["tier"].is_null();
        labelled && (!self.small || essence["spec"]["b"] != 2)
    }

    /// Whether a change to `new` is one it is for.
    pub(super) fn wants(&self, new: &Value) -> bool {
        self.new.is_none_or(|wanted| *new == wanted)
    }

    /// Whether only changes to one value are its business.
    pub(super) fn new_only(&self) -> bool {
        self.new.is_some()
    }

    /// Whether it follows changes, for as long as the object lives.
    pub(super) fn reacts(&self) -> bool {
        matches!(self.on, "update" | "field")
    }

    /// Whether nothing but the object's essence decides on its calls.
    pub(super) fn is_plain(&self) -> bool {
        !self.labelled && !self.small && self.new.is_none()
    }

    /// What of an essence is its business.
    pub(super) fn scope(&self, essence: &Value) -> Value {
        match self.field {
            Some(field) => essence[field.split('.').next().unwrap_or_default()]
                [field.split('.').next_back().unwrap_or_default()]
            .clone(),
            None => essence.clone(),
        }
    }
}

/// What counts of an object, or of what handlers are told of it: without what operators keep there.
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
