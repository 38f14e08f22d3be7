//! Flags of the program's own, beside those of every operator.
//!
//! Guarantees that no flag of a program replaces one of the operator's. This module must not know the effect of a flag.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{ArgMatches, Args, Command};

const HEADING: &str = "Flags of this program";

/// The flags of a program that has none of its own.
#[derive(Args, Clone, Copy, Debug)]
#[group(skip)]
pub struct NoFlags {}

/// The flags of a type that derives `clap::Args`.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnFlags(fn(Command) -> Command);

impl OwnFlags {
    pub(super) fn none() -> Self {
        Self::of::<NoFlags>()
    }

    pub(super) fn of<F: Args>() -> Self {
        Self(F::augment_args)
    }

    fn alone(self) -> Command {
        (self.0)(Command::new("program").disable_help_flag(true))
    }

    /// Adds the flags to the command of an operator. Mandatory flags are not demanded with `--why`, which connects to nothing but
    /// the cluster. The error names the flag that the command already has.
    pub(super) fn beside(self, command: Command) -> Result<Command, String> {
        let alone = self.alone();
        if let Some(clash) = clash(command.clone(), &alone) {
            return Err(clash);
        }
        let command = (self.0)(command.next_help_heading(HEADING));
        let mandatory = alone.get_arguments().filter(|it| it.is_required_set());
        Ok(mandatory.fold(command, |command, flag| {
            let unless_why = |flag: clap::Arg| flag.required(false).required_unless_present("why");
            command.mut_arg(flag.get_id().as_str(), unless_why)
        }))
    }

    /// Returns the flags that were typed, each as one token.
    pub(super) fn typed(self, typed: &ArgMatches) -> Vec<OsString> {
        kopf_rs_flags::forwarded::typed(self.alone(), typed)
    }
}

/// Returns the name that both have, with the remedy.
fn clash(mut operator: Command, own: &Command) -> Option<String> {
    // Adds --help and --version.
    operator.build();
    let names: BTreeSet<String> = names(&operator).collect();
    let taken = self::names(own).find(|name| names.contains(name))?;
    Some(format!(
        "the program's own flags (`kopf_rs::main!(flags = ..)`) have {taken}, which belongs to the flags of every operator: expected another \
         name in the attribute of the field, such as `#[arg(long = \"my-flag\", id = \"my_flag\")]`"
    ))
}

/// Returns all names by which clap distinguishes flags and groups of them.
fn names(command: &Command) -> impl Iterator<Item = String> {
    let names_of = |flag: &clap::Arg| {
        let long = flag.get_long_and_visible_aliases().into_iter().flatten().map(|it| format!("--{it}"));
        let short = flag.get_short_and_visible_aliases().into_iter().flatten().map(|it| format!("-{it}"));
        let id = format!("the id `{}`", flag.get_id());
        long.chain(short).chain([id]).collect::<Vec<_>>()
    };
    let groups = command.get_groups().map(|group| format!("the id `{}`", group.get_id()));
    command.get_arguments().flat_map(names_of).chain(groups)
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;
    use kopf_rs_flags::Flags;

    use super::*;

    /// A program may give its type the name of ours.
    mod of_a_program {
        #[derive(clap::Args, Debug)]
        pub(super) struct Flags {
            /// The address of the database
            #[arg(long)]
            pub(super) db_url: String,
            /// The number of connections
            #[arg(short = 'c', long, default_value_t = 3)]
            pub(super) connections: u8,
        }
    }

    fn command(own: OwnFlags) -> Result<Command, String> {
        own.beside(Flags::augment_args(Command::new("op")))
    }

    #[test]
    fn the_programs_flags_are_parsed_together_with_the_operators() {
        let own = OwnFlags::of::<of_a_program::Flags>();
        let command = command(own).unwrap();
        let parse = |line: &str| command.clone().try_get_matches_from(line.split(' '));
        let typed = parse("op --once --db-url x -n team -c 4").unwrap();
        assert!(Flags::from_arg_matches(&typed).unwrap().cluster.once);
        let flags = of_a_program::Flags::from_arg_matches(&typed).unwrap();
        assert_eq!((flags.db_url.as_str(), flags.connections), ("x", 4));
        assert_eq!(own.typed(&typed), ["--db-url=x", "--connections=4"]);
        assert!(parse("op --once").is_err(), "--db-url is mandatory");
        assert!(parse("op --why widgets/mine").is_ok());
        let help = command.clone().render_help().to_string();
        let (_, ours) = help.split_once(HEADING).expect("a heading");
        assert!(ours.contains("--db-url <DB_URL>") && !ours.contains("--once"), "{help}");
    }

    #[test]
    fn a_flag_of_every_operator_cannot_be_declared_again() {
        #[derive(Args)]
        struct Long {
            #[arg(long = "settings", id = "file")]
            _a: bool,
        }
        #[derive(Args)]
        struct Short {
            #[arg(short = 'n', id = "number")]
            _a: bool,
        }
        #[derive(Args)]
        struct Id {
            #[arg(long = "database", id = "name")]
            _a: bool,
        }
        #[derive(Args)]
        struct Help {
            #[arg(long = "help", id = "manual")]
            _a: bool,
        }
        for (own, taken) in [
            (OwnFlags::of::<Long>(), "--settings"),
            (OwnFlags::of::<Short>(), "-n"),
            (OwnFlags::of::<Id>(), "the id `name`"),
            (OwnFlags::of::<Help>(), "--help"),
        ] {
            let clash = command(own).unwrap_err();
            assert!(clash.contains(&format!("have {taken}, which")), "{clash}");
        }
    }
}
