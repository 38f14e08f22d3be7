//! Macros: what `has`, `all`, `map` and the like stand for.
//!
//! Promise: parts that come of a macro are at its place. Must not know texts, nor what parts are.

use super::tree::{Fold, Maker, Part, Tree};

/// The value that macros make; no expression can name it.
const VALUE: &str = "@result";

/// The field that is asked for, if it is one.
pub(super) fn has(maker: &mut Maker, place: usize, given: &[Tree]) -> Option<Tree> {
    let [
        Tree {
            part:
                Part::Select {
                    of,
                    field,
                    optional: false,
                    test: false,
                },
            ..
        },
    ] = given
    else {
        return None;
    };
    let (of, field) = (of.clone(), field.clone());
    Some(maker.make(
        place,
        Part::Select {
            of,
            field,
            optional: false,
            test: true,
        },
    ))
}

/// What a call of a method stands for, if it is a macro.
pub(super) fn method(
    numbers: &mut Maker,
    place: usize,
    name: &str,
    target: &Tree,
    given: &[Tree],
) -> Option<Tree> {
    let name_of = |tree: &Tree| match &tree.part {
        Part::Name(name) => Some(name.clone()),
        _ => None,
    };
    let range = target.clone();
    let mut writer = Writer {
        maker: numbers,
        place,
    };
    match (name, given) {
        ("all" | "exists" | "exists_one", [item, holds]) => {
            let names = (name_of(item)?, None);
            Some(writer.quantified(name, range, names, holds.clone()))
        }
        ("all" | "exists" | "exists_one" | "existsOne", [key, item, holds]) => {
            let names = (name_of(key)?, Some(name_of(item)?));
            Some(writer.quantified(name, range, names, holds.clone()))
        }
        ("map", [item, makes]) => {
            Some(writer.listed(range, (name_of(item)?, None), None, makes.clone()))
        }
        ("map", [item, holds, makes]) => {
            let names = (name_of(item)?, None);
            Some(writer.listed(range, names, Some(holds.clone()), makes.clone()))
        }
        ("filter", [item, holds]) => {
            let names = (name_of(item)?, None);
            Some(writer.listed(range, names, Some(holds.clone()), item.clone()))
        }
        ("transformList" | "transformMap" | "transformMapEntry", [key, item, rest @ ..]) => {
            let names = (name_of(key)?, Some(name_of(item)?));
            let (holds, makes) = match rest {
                [makes] => (None, makes.clone()),
                [holds, makes] => (Some(holds.clone()), makes.clone()),
                _ => return None,
            };
            Some(match name {
                "transformList" => writer.listed(range, names, holds, makes),
                _ => writer.mapped(range, names, holds, (name == "transformMap", makes)),
            })
        }
        ("optMap" | "optFlatMap", [item, makes]) => {
            let wrapped = name == "optMap";
            Some(writer.optional(target, name_of(item)?, makes.clone(), wrapped))
        }
        ("sortBy", [item, makes]) => {
            Some(writer.sorted(target.clone(), name_of(item)?, makes.clone()))
        }
        _ => None,
    }
}

type Names = (String, Option<String>);

/// Writes what macros stand for.
struct Writer<'a> {
    maker: &'a mut Maker,
    place: usize,
}

// === impl Writer ===

impl Writer<'_> {
    fn make(&mut self, part: Part) -> Tree {
        self.maker.make(self.place, part)
    }

    fn call(&mut self, name: &str, given: Vec<Tree>) -> Tree {
        self.maker.call(self.place, name, given)
    }

    fn name(&mut self, name: &str) -> Tree {
        self.make(Part::Name(name.to_owned()))
    }

    fn value(&mut self) -> Tree {
        self.name(VALUE)
    }

    fn fold(
        &mut self,
        range: Tree,
        names: Names,
        [start, while_true, step, end]: [Tree; 4],
    ) -> Tree {
        let value = VALUE.to_owned();
        self.make(Part::Fold(Box::new(Fold {
            range,
            names,
            value,
            start,
            while_true,
            step,
            end,
        })))
    }

    fn quantified(&mut self, name: &str, range: Tree, names: Names, holds: Tree) -> Tree {
        let value = self.value();
        let parts = match name {
            "all" => {
                let start = self.make(Part::Bool(true));
                let on = self.call("@not_strictly_false", vec![value]);
                let given = vec![self.value(), holds];
                let step = self.call("_&&_", given);
                [start, on, step, self.value()]
            }
            "exists" => {
                let start = self.make(Part::Bool(false));
                let not = self.call("!_", vec![value]);
                let on = self.call("@not_strictly_false", vec![not]);
                let given = vec![self.value(), holds];
                let step = self.call("_||_", given);
                [start, on, step, self.value()]
            }
            _ => {
                let start = self.make(Part::Int(0));
                let on = self.make(Part::Bool(true));
                let given = vec![value, self.make(Part::Int(1))];
                let more = self.call("_+_", given);
                let given = vec![holds, more, self.value()];
                let step = self.call("_?_:_", given);
                let given = vec![self.value(), self.make(Part::Int(1))];
                [start, on, step, self.call("_==_", given)]
            }
        };
        self.fold(range, names, parts)
    }

    /// The step, where a condition holds.
    fn where_holds(&mut self, holds: Option<Tree>, step: Tree) -> Tree {
        let Some(holds) = holds else {
            return step;
        };
        let given = vec![holds, step, self.value()];
        self.call("_?_:_", given)
    }

    fn listed(&mut self, range: Tree, names: Names, holds: Option<Tree>, makes: Tree) -> Tree {
        let start = self.make(Part::List(Vec::new()));
        let on = self.make(Part::Bool(true));
        let given = vec![self.value(), self.make(Part::List(vec![makes]))];
        let step = self.call("_+_", given);
        let step = self.where_holds(holds, step);
        let end = self.value();
        self.fold(range, names, [start, on, step, end])
    }

    fn mapped(
        &mut self,
        range: Tree,
        names: Names,
        holds: Option<Tree>,
        (keyed, makes): (bool, Tree),
    ) -> Tree {
        let start = self.make(Part::Map(Vec::new()));
        let on = self.make(Part::Bool(true));
        let mut given = vec![self.value()];
        if keyed {
            given.push(self.name(&names.0));
        }
        given.push(makes);
        let step = self.call("cel.@mapInsert", given);
        let step = self.where_holds(holds, step);
        let end = self.value();
        self.fold(range, names, [start, on, step, end])
    }

    /// A value under a name: a fold over nothing.
    fn bound(&mut self, name: String, to: Tree, makes: Tree) -> Tree {
        let range = self.make(Part::List(Vec::new()));
        let while_true = self.make(Part::Bool(false));
        let step = self.name(&name);
        self.make(Part::Fold(Box::new(Fold {
            range,
            names: ("#unused".to_owned(), None),
            value: name,
            start: to,
            while_true,
            step,
            end: makes,
        })))
    }

    fn optional(&mut self, target: &Tree, name: String, makes: Tree, wrapped: bool) -> Tree {
        let there = self
            .maker
            .method(self.place, "hasValue", target.clone(), Vec::new());
        let copy = self.maker.copy(target);
        let value = self.maker.method(self.place, "value", copy, Vec::new());
        let mut made = self.bound(name, value, makes);
        if wrapped {
            made = self.call("optional.of", vec![made]);
        }
        let given = vec![there, made, self.call("optional.none", Vec::new())];
        self.call("_?_:_", given)
    }

    fn sorted(&mut self, list: Tree, name: String, makes: Tree) -> Tree {
        let input = "@__sortBy_input__";
        let range = self.name(input);
        let keys = self.listed(range, (name, None), None, makes);
        let target = self.name(input);
        let sorted = self
            .maker
            .method(self.place, "@sortByAssociatedKeys", target, vec![keys]);
        self.bound(input.to_owned(), list, sorted)
    }
}
