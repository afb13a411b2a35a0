//! One file a subcommand: arguments and printing, no logic.
#![allow(clippy::print_stdout, clippy::print_stderr)]
#![allow(rustdoc::broken_intra_doc_links, reason = "the texts of --help have brackets of their own")]

/// As `println!`, with an error in place of a panic; a reader that has gone is no error.
macro_rules! out_line {
    ($($arguments:tt)*) => {
        $crate::cli::print_line(format_args!($($arguments)*))
    };
}

/// As `eprintln!`, where a closed or full standard error is no reason to stop.
macro_rules! err_line {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        // Progress and notes: the work they tell of matters more than that they are read.
        let _ = writeln!(std::io::stderr(), $($arguments)*);
    }};
}

pub mod bench;
mod bench_attention;
mod bench_floor;
mod bench_restore;
mod bench_timings;
mod columns;
pub mod compact;
pub mod doctor;
pub mod embed;
pub mod extract;
pub mod generate;
pub mod import;
pub mod instances;
pub mod judge;
pub mod logits;
pub mod model_args;
pub mod models;
pub mod plan;
pub mod probe;
mod quantities;
pub mod run;
mod run_progress;
mod run_table;
pub mod task_args;
pub mod watched;

/// How a command ended, when it ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Finished,
    /// Exit code 1: finished, but some instances failed.
    FinishedWithFailures,
    /// Exit code 2: stopped before the end, as it was asked to.
    Stopped,
}

/// Any error, as it will be printed.
pub type CliError = Box<dyn std::error::Error + Send + Sync>;

/// What a subcommand's `run(args)` returns; an error is printed with its chain, exit code 2.
pub type CliResult = Result<Outcome, CliError>;

/// `1 token`, `2 tokens`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn print_line(line: std::fmt::Arguments<'_>) -> std::io::Result<()> {
    use std::io::Write;
    match writeln!(std::io::stdout(), "{line}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// An error and its causes in one line; a cause that the line already holds is not said twice.
pub fn error_line(error: &(dyn std::error::Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}

/// Sends log lines to stderr, as `RUST_LOG` asks (warnings by default).
pub fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(is_terminal)
        .with_writer(std::io::stderr)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("notes.json: {0}")]
    struct Outer(#[source] std::io::Error);

    #[derive(Debug, thiserror::Error)]
    #[error("cannot go on")]
    struct Outermost(#[source] Outer);

    #[test]
    fn a_cause_is_said_once() {
        let outer = || Outer(std::io::Error::other("disk is full"));
        assert_eq!(error_line(&outer()), "notes.json: disk is full");
        assert_eq!(error_line(&Outermost(outer())), "cannot go on: notes.json: disk is full");
    }
}
