//! The expression tree, with the position and the id of each node.
//!
//! Ids are unique within an expression. Independent of the source text and of types.

/// A node of an expression.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// Identifies the node within its expression.
    pub(super) id: usize,
    /// The position in characters; for an operation, that of the operator.
    pub(super) place: usize,
    pub(super) part: Part,
}

/// The operation of a node.
#[derive(Clone, Debug)]
pub(super) enum Part {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Bytes(Vec<u8>),
    Text(String),
    Name(String),
    Select {
        of: Box<Tree>,
        field: String,
        optional: bool,
        /// True for `has(..)`, which only tests if the field is there.
        test: bool,
    },
    Call {
        name: String,
        target: Option<Box<Tree>>,
        given: Vec<Tree>,
    },
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
    /// An optional entry of a list or map literal, which is left out if it has no value.
    Perhaps(Box<Tree>),
    Message(String, Vec<Field>),
    Fold(Box<Fold>),
}

/// A field of a message literal.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) place: usize,
    pub(super) of: Tree,
}

/// A loop over a range with an accumulator; macros expand to it.
#[derive(Clone, Debug)]
pub(super) struct Fold {
    pub(super) range: Tree,
    /// The loop variables: either the item or key alone, or the index or key together with the value.
    pub(super) names: (String, Option<String>),
    /// The name of the accumulator.
    pub(super) value: String,
    pub(super) start: Tree,
    pub(super) while_true: Tree,
    pub(super) step: Tree,
    pub(super) end: Tree,
}

// === impl Tree ===

impl Tree {
    /// Returns true if any node uses the variable.
    pub(super) fn names(&self, wanted: &str) -> bool {
        let mut used = false;
        self.each_part(&mut |part| {
            used |= matches!(&part.part, Part::Name(name) if plain(name) == wanted);
        });
        used
    }

    /// Calls `look` for this node and all nodes below it.
    pub(super) fn each_part<'a>(&'a self, look: &mut impl FnMut(&'a Self)) {
        look(self);
        match &self.part {
            Part::Select { of, .. } | Part::Perhaps(of) => of.each_part(look),
            Part::Message(_, fields) => {
                for field in fields {
                    field.of.each_part(look);
                }
            }
            Part::Call { target, given, .. } => {
                for part in target.as_deref().into_iter().chain(given) {
                    part.each_part(look);
                }
            }
            Part::List(items) => {
                for item in items {
                    item.each_part(look);
                }
            }
            Part::Map(entries) => {
                for (key, of) in entries {
                    key.each_part(look);
                    of.each_part(look);
                }
            }
            Part::Fold(fold) => {
                let parts = [
                    &fold.range,
                    &fold.start,
                    &fold.while_true,
                    &fold.step,
                    &fold.end,
                ];
                for part in parts {
                    part.each_part(look);
                }
            }
            _ => {}
        }
    }

    /// Returns the type that a dotted name such as `google.protobuf.Timestamp` refers to.
    pub(super) fn named_type(&self) -> Option<&'static str> {
        let Part::Select { of, field, .. } = &self.part else {
            return None;
        };
        let name = match field.as_str() {
            "Timestamp" => "google.protobuf.Timestamp",
            "Duration" => "google.protobuf.Duration",
            _ => return None,
        };
        let Part::Select { of, field, .. } = &of.part else {
            return None;
        };
        let google = matches!(&of.part, Part::Name(space) if plain(space) == "google");
        (google && field == "protobuf").then_some(name)
    }

    /// Returns true if the node consists of literals only.
    pub(super) fn is_constant(&self) -> bool {
        match &self.part {
            Part::Null
            | Part::Bool(_)
            | Part::Int(_)
            | Part::Uint(_)
            | Part::Double(_)
            | Part::Bytes(_)
            | Part::Text(_) => true,
            Part::List(items) => items.iter().all(Self::is_constant),
            Part::Map(entries) => {
                let constant =
                    |(key, value): &(Self, Self)| key.is_constant() && value.is_constant();
                entries.iter().all(constant)
            }
            Part::Call {
                name,
                target: None,
                given,
            } => matches!(given.as_slice(), [of] if is_conversion(name) && of.is_constant()),
            _ => false,
        }
    }
}

/// Returns the name without the leading dot, which selects the root namespace; no other namespaces exist.
pub(super) fn plain(name: &str) -> &str {
    name.strip_prefix('.').unwrap_or(name)
}

/// Returns true if the function converts between types.
pub(super) fn is_conversion(name: &str) -> bool {
    matches!(
        name,
        "bool" | "bytes" | "double" | "duration" | "dyn" | "int" | "string" | "timestamp" | "uint"
    )
}

/// Creates nodes and numbers them.
#[derive(Debug, Default)]
pub(super) struct Maker {
    next: usize,
}

// === impl Maker ===

impl Maker {
    pub(super) fn count(&self) -> usize {
        self.next
    }

    pub(super) fn make(&mut self, place: usize, part: Part) -> Tree {
        self.next += 1;
        Tree {
            id: self.next - 1,
            place,
            part,
        }
    }

    pub(super) fn call(&mut self, place: usize, name: &str, given: Vec<Tree>) -> Tree {
        let name = name.to_owned();
        let target = None;
        self.make(
            place,
            Part::Call {
                name,
                target,
                given,
            },
        )
    }

    pub(super) fn method(
        &mut self,
        place: usize,
        name: &str,
        target: Tree,
        given: Vec<Tree>,
    ) -> Tree {
        let name = name.to_owned();
        let target = Some(Box::new(target));
        self.make(
            place,
            Part::Call {
                name,
                target,
                given,
            },
        )
    }

    /// Copies a tree; the copies get ids of their own.
    pub(super) fn copy(&mut self, tree: &Tree) -> Tree {
        let part = match &tree.part {
            Part::Select {
                of,
                field,
                optional,
                test,
            } => Part::Select {
                of: Box::new(self.copy(of)),
                field: field.clone(),
                optional: *optional,
                test: *test,
            },
            Part::Call {
                name,
                target,
                given,
            } => Part::Call {
                name: name.clone(),
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                given: given.iter().map(|part| self.copy(part)).collect(),
            },
            Part::List(items) => Part::List(items.iter().map(|item| self.copy(item)).collect()),
            Part::Map(entries) => {
                let copied = entries
                    .iter()
                    .map(|(key, value)| (self.copy(key), self.copy(value)));
                Part::Map(copied.collect())
            }
            Part::Perhaps(of) => Part::Perhaps(Box::new(self.copy(of))),
            Part::Message(name, fields) => {
                let copied = fields.iter().map(|field| Field {
                    of: self.copy(&field.of),
                    ..field.clone()
                });
                Part::Message(name.clone(), copied.collect())
            }
            Part::Fold(fold) => Part::Fold(Box::new(Fold {
                range: self.copy(&fold.range),
                names: fold.names.clone(),
                value: fold.value.clone(),
                start: self.copy(&fold.start),
                while_true: self.copy(&fold.while_true),
                step: self.copy(&fold.step),
                end: self.copy(&fold.end),
            })),
            leaf => leaf.clone(),
        };
        self.make(tree.place, part)
    }
}
