//! The expansion of macros such as `has`, `all` and `map`.
//!
//! The nodes of an expansion have the position of the macro. Independent of the source text and of types.

use super::Complaint;
use super::tree::{Fold, Maker, Part, Tree};

/// The accumulator variable of macros; no expression can name it.
const VALUE: &str = "@result";

/// Expands `has(a.b)` to a field test. Returns `None` for another number of operands, which makes it an ordinary call.
pub(super) fn has(
    maker: &mut Maker,
    place: usize,
    given: &[Tree],
) -> Option<Result<Tree, Complaint>> {
    let [asked] = given else {
        return None;
    };
    let Part::Select {
        of,
        field,
        optional: false,
        test: false,
    } = &asked.part
    else {
        let why = "invalid argument to has() macro";
        return Some(Err((asked.place, why.to_owned())));
    };
    let asked = Part::Select {
        of: of.clone(),
        field: field.clone(),
        optional: false,
        test: true,
    };
    Some(Ok(maker.make(place, asked)))
}

/// Expands a method call, or returns `None` if it is not a macro.
pub(super) fn method(
    numbers: &mut Maker,
    place: usize,
    name: &str,
    target: &Tree,
    given: &[Tree],
) -> Option<Result<Tree, Complaint>> {
    let range = target.clone();
    let mut writer = Writer {
        maker: numbers,
        place,
    };
    Some(match (name, given) {
        ("all" | "exists" | "exists_one", [item, holds]) => one(item, SIMPLE)
            .map(|item| writer.quantified(name, range, (item, None), holds.clone())),
        ("all" | "exists" | "exists_one" | "existsOne", [key, item, holds]) => {
            two(key, item).map(|names| writer.quantified(name, range, names, holds.clone()))
        }
        ("map", [item, makes]) => {
            one(item, PLAIN).map(|item| writer.listed(range, (item, None), None, makes.clone()))
        }
        ("map", [item, holds, makes]) => one(item, PLAIN).map(|item| {
            writer.listed(range, (item, None), Some(holds.clone()), makes.clone())
        }),
        ("filter", [item, holds]) => one(item, PLAIN).map(|name| {
            writer.listed(range, (name, None), Some(holds.clone()), item.clone())
        }),
        ("transformList" | "transformMap" | "transformMapEntry", [key, item, rest @ ..]) => {
            let (holds, makes) = match rest {
                [makes] => (None, makes.clone()),
                [holds, makes] => (Some(holds.clone()), makes.clone()),
                _ => return None,
            };
            two(key, item).map(|names| match name {
                "transformList" => writer.listed(range, names, holds, makes),
                _ => writer.mapped(range, names, holds, (name == "transformMap", makes)),
            })
        }
        ("optMap" | "optFlatMap", [item, makes]) => {
            let why = format!("{name}() variable name must be a simple identifier");
            named(item, &why)
                .map(|item| writer.optional(target, item, makes.clone(), name == "optMap"))
        }
        ("sortBy", [item, makes]) if can_be_list(target) => {
            one(item, PLAIN).map(|item| writer.sorted(target.clone(), item, makes.clone()))
        }
        ("sortBy", [_, _]) => Err((
            target.place,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression".to_owned(),
        )),
        _ => return None,
    })
}

/// Errors for a loop variable that is not a simple name; the text depends on the macro.
const SIMPLE: &str = "argument must be a simple name";
const PLAIN: &str = "argument is not an identifier";

/// Returns the name of the loop variable.
fn one(tree: &Tree, otherwise: &str) -> Result<String, Complaint> {
    let name = named(tree, otherwise)?;
    free(tree, &name)?;
    Ok(name)
}

/// Returns the names of both loop variables.
fn two(first: &Tree, second: &Tree) -> Result<Names, Complaint> {
    let names = (named(first, SIMPLE)?, named(second, SIMPLE)?);
    if names.0 == names.1 {
        let why = format!("duplicate variable name: {}", names.0);
        return Err((second.place, why));
    }
    free(first, &names.0)?;
    free(second, &names.1)?;
    Ok((names.0, Some(names.1)))
}

fn named(tree: &Tree, otherwise: &str) -> Result<String, Complaint> {
    match &tree.part {
        Part::Name(name) => Ok(name.clone()),
        _ => Err((tree.place, otherwise.to_owned())),
    }
}

/// Rejects the accumulator name of older cel-go versions as a loop variable.
fn free(tree: &Tree, name: &str) -> Result<(), Complaint> {
    if name == "__result__" {
        let why = "iteration variable overwrites accumulator variable";
        return Err((tree.place, why.to_owned()));
    }
    Ok(())
}

fn can_be_list(tree: &Tree) -> bool {
    matches!(
        tree.part,
        Part::List(_) | Part::Select { .. } | Part::Name(_) | Part::Fold(_) | Part::Call { .. }
    )
}

type Names = (String, Option<String>);

/// Builds the expansions of macros.
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

    /// Makes the step conditional: without the condition, the accumulator stays unchanged.
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

    /// Binds a value to a name, as a fold over an empty list.
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
