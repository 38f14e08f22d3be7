//! Commands of every operator's program for tasks that need no handlers: `freeze`, `resume` and `webhooks clean`, as of the program `kopf-rs`.
//!
//! This module must not know how a task is done.

use clap::builder::StyledStr;
use clap::{Command, Subcommand};
use kopf_rs_flags::task::Task;

/// Adds the commands to an operator's program. The operator of that name is the default of `webhooks clean`.
pub(super) fn beside(command: Command, name: Option<&'static str>, title: &str) -> Command {
    let command = Task::augment_subcommands(command)
        // Flags of the operator have no effect on a task.
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
        .mut_subcommands(|task| renamed(task, title));
    let Some(name) = name else {
        return command;
    };
    command.mut_subcommand("webhooks", |webhooks| {
        webhooks.mut_subcommand("clean", |clean| {
            clean.mut_arg("name", |flag| flag.required(false).default_value(name))
        })
    })
}

/// Shows this program's name in place of `kopf-rs`.
fn renamed(task: Command, title: &str) -> Command {
    let shown = |text: Option<&StyledStr>| {
        let text = text.map(ToString::to_string).unwrap_or_default();
        text.replace("kopf-rs ", &format!("{title} "))
    };
    let (about, examples) = (shown(task.get_about()), shown(task.get_after_help()));
    task.about(about).after_help(examples)
}

#[cfg(test)]
mod tests {
    use clap::{Args, FromArgMatches};
    use kopf_rs_flags::Flags;

    use super::*;

    fn command() -> Command {
        Flags::augment_args(beside(Command::new("my-op"), Some("my-op"), "my-op"))
    }

    #[test]
    fn an_operators_program_does_the_tasks_of_kopf_rs() {
        let parse = |line: &str| command().try_get_matches_from(line.split(' '));
        let task = |line: &str| Task::from_arg_matches(&parse(line)?);
        assert!(matches!(task("my-op freeze -P default -t 10m -v"), Ok(Task::Pause(_))));
        let Ok(Task::Webhooks(webhooks)) = task("my-op webhooks clean --dry-run") else {
            panic!("it is a command");
        };
        assert_eq!(webhooks.clean().name, "my-op");
        assert!(parse("my-op --once").unwrap().subcommand().is_none());
        assert!(parse("my-op --once resume -P default").is_err());
    }

    #[test]
    fn the_help_of_a_task_names_the_program() {
        let mut command = command();
        command.build();
        for task in ["freeze", "resume", "webhooks"] {
            let task = command.find_subcommand_mut(task).expect("a command");
            let help = task.render_help().to_string();
            assert!(help.contains("  my-op ") && !help.contains("kopf-rs "), "{help}");
        }
    }
}
