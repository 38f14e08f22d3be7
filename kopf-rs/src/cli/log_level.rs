//! Applies `logging.level` at the start, and follows it in the settings file while the operator runs.
//!
//! This module must not know how lines are written, and does not apply any other setting.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

use crate::cli::lines::Verbosity;
use crate::operator::settings::log_level::LogLevel;
use crate::operator::settings::{Settings, SettingsError};

/// The interval of reading. Polling, because a kubelet replaces mounted files behind symbolic links.
const INTERVAL: Duration = Duration::from_secs(10);

/// The level of the log, which a settings file may change.
pub(super) struct LogLevelSetting {
    verbosity: Verbosity,
    level: Option<LogLevel>,
}

impl LogLevelSetting {
    pub(super) fn new(verbosity: Verbosity) -> Self {
        Self { verbosity, level: None }
    }

    /// Applies a level, if it differs.
    pub(super) fn apply(&mut self, level: Option<LogLevel>) {
        if level != self.level {
            self.level = level;
            self.verbosity.set(level);
        }
    }

    /// Follows the file for ever.
    pub(super) async fn follow(mut self, file: PathBuf) {
        let mut last_problem = None;
        loop {
            sleep(INTERVAL).await;
            let path = file.clone();
            let read = tokio::task::spawn_blocking(move || level_in(&path)).await;
            let problem = match read {
                Ok(Ok(level)) => {
                    self.change(level);
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                // The runtime ends.
                Err(_) => return,
            };
            if let Some(problem) = problem.as_ref().filter(|_| problem != last_problem) {
                tracing::warn!(
                    "The log level stays, because the settings file cannot be read again: {problem}"
                );
            }
            last_problem = problem;
        }
    }

    fn change(&mut self, level: Option<LogLevel>) {
        if level == self.level {
            return;
        }
        let told = || {
            if let Some(level) = level {
                tracing::info!("The log level is now `{level}`, as `logging.level` says.");
            } else {
                tracing::info!(
                    "The log level is again that of the flags, because `logging.level` has no value."
                );
            }
        };
        // One of both states shows lines of this level, unless neither does.
        let grows = level.is_some_and(|it| it >= LogLevel::Info);
        if !grows {
            told();
        }
        self.apply(level);
        if grows {
            told();
        }
    }
}

fn level_in(file: &Path) -> Result<Option<LogLevel>, SettingsError> {
    let mut settings = Settings::default();
    settings.read_file(file)?;
    settings.read_environment()?;
    Ok(settings.logging.level)
}

#[cfg(test)]
mod tests {
    use kopf_rs_flags::LogFlags;
    use tokio::sync::mpsc;
    use tracing::Level;
    use tracing_subscriber::filter::Targets;

    use super::*;

    /// The level of lines of the program, and that of libraries.
    fn levels(targets: &Targets) -> [bool; 2] {
        ["my_op", "hyper"].map(|target| targets.would_enable(target, &Level::DEBUG))
    }

    #[tokio::test(start_paused = true)]
    async fn the_level_follows_the_file() {
        let name = format!("kopf-rs-log-level-{}.yaml", std::process::id());
        let file = std::env::temp_dir().join(name);
        let write = |text: &str| std::fs::write(&file, text).expect("the temporary folder can be written to");
        let (applied, mut changes) = mpsc::unbounded_channel();
        let apply = move |targets: Targets| applied.send(levels(&targets)).expect("the test waits");
        let setting = LogLevelSetting::new(Verbosity::told_to(&LogFlags::default(), apply));
        write("logging: {level: debug}");
        let following = tokio::spawn(setting.follow(file.clone()));
        assert_eq!(changes.recv().await, Some([true, false]));
        // Changes nothing, not even to the default.
        write("logging: {level: loud}");
        sleep(2 * INTERVAL).await;
        assert!(changes.is_empty());
        write("logging: {level: TRACE}");
        assert_eq!(changes.recv().await, Some([true, true]));
        write("logging: {level: null}");
        assert_eq!(changes.recv().await, Some([false, false]));
        following.abort();
        std::fs::remove_file(&file).expect("the file is still there");
    }
}
