//! Arguments that the commands for one task share.

use super::CliError;
use super::watched::{Progress, Watched};
use crate::decode::SamplingParams;
use crate::engine::Engine;
use crate::history::{Format, History, ImportError, import_history};
use crate::tasks::{GenerationSettings, Job, RunEnd, RunOptions, run_jobs};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// Which history. Flatten into a command's arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct HistoryArgs {
    /// The history: OpenAI messages, ShareGPT, conpact rows, or longwick's own JSONL.
    #[arg(value_name = "HISTORY")]
    pub history: PathBuf,
    /// The file's format [default: recognised from its content].
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Which history of a file that holds several, from 0.
    #[arg(long, value_name = "I")]
    pub index: Option<usize>,
}

impl HistoryArgs {
    /// Reads the history.
    ///
    /// # Errors
    /// Those of [`import_history`].
    pub fn load(&self) -> Result<History, ImportError> {
        import_history(&self.history, self.format, self.index)
    }
}

/// How the model generates. Flatten into a command's arguments.
#[derive(Debug, Clone, clap::Args)]
pub struct GenerationArgs {
    /// Most new tokens of an answer, reasoning included.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub max_tokens: usize,
    /// 0 is greedy.
    #[arg(long, value_name = "T", default_value_t = 0.0, allow_negative_numbers = true)]
    pub temperature: f32,
    /// Keep the K most likely tokens (0: all).
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Keep the smallest set of tokens with this probability.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f32,
    /// Seeds the draws, where the temperature is above 0.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Whether the model reasons first, where its template has the switch [default: as the template has it].
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub thinking: Option<bool>,
    /// How much the model reasons, where its template knows it: low, medium or high.
    #[arg(long, value_name = "EFFORT")]
    pub reasoning_effort: Option<String>,
    /// The date templates see, YYYY-MM-DD [default: today, UTC].
    #[arg(long, value_name = "DATE")]
    pub date: Option<String>,
    /// Write each prompt to standard error, exactly as the model gets it.
    #[arg(long)]
    pub show_prompt: bool,
}

pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off".to_owned()),
    }
}

impl GenerationArgs {
    /// As the tasks take them.
    pub fn settings(&self) -> GenerationSettings {
        let &Self { max_tokens, temperature, top_k, top_p, seed, thinking, .. } = self;
        GenerationSettings {
            max_tokens,
            sampling: SamplingParams { temperature, top_k, top_p, seed },
            thinking,
            reasoning_effort: self.reasoning_effort.clone(),
        }
    }

    fn run_options(&self) -> RunOptions {
        let date = self.date.clone().unwrap_or_else(today);
        RunOptions { max_in_flight: IN_FLIGHT, date }
    }

    /// Runs jobs on the engine; outputs come back in the jobs' order.
    ///
    /// # Errors
    /// Those of [`run_jobs`].
    pub fn run<J: Job>(
        &self,
        engine: &mut Engine,
        progress: &Progress,
        jobs: Vec<J>,
    ) -> Result<Vec<J::Output>, CliError> {
        let mut outputs = Vec::with_capacity(jobs.len());
        self.run_each(engine, progress, jobs, &mut |_, output| {
            outputs.push(output);
            ControlFlow::Continue(())
        })?;
        Ok(outputs)
    }

    /// Runs jobs on the engine; `on_done` gets each output with its job's number, in the jobs' order, as soon as all
    /// before it are there.
    ///
    /// # Errors
    /// Those of [`run_jobs`].
    pub fn run_each<J: Job>(
        &self,
        engine: &mut Engine,
        progress: &Progress,
        jobs: Vec<J>,
        on_done: &mut dyn FnMut(usize, J::Output) -> ControlFlow<()>,
    ) -> Result<RunEnd, CliError> {
        let mut watched = Watched::new(engine, progress.clone(), self.show_prompt);
        let mut early = BTreeMap::new();
        let mut next = 0;
        let mut in_order = |index, output| {
            progress.advance();
            early.insert(index, output);
            while let Some(output) = early.remove(&next) {
                on_done(next, output)?;
                next += 1;
            }
            ControlFlow::Continue(())
        };
        // A command for one task is ended by the signal itself: what it has printed is all it would keep.
        let never = AtomicBool::new(false);
        let end =
            run_jobs(&mut watched, jobs.into_iter().enumerate(), &self.run_options(), &mut in_order, &never);
        progress.finish();
        Ok(end?)
    }
}

const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Today's date in UTC, `YYYY-MM-DD`.
pub(super) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
    date_of_day(seconds / 86_400)
}

/// The Gregorian date of a day counted from 1970-01-01.
fn date_of_day(mut day: u64) -> String {
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

/// Writes to the file, whole or not at all, or to standard output. A reader that stops reading is no failure.
///
/// # Errors
/// What writing refuses.
pub fn write_output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match path {
        Some(path) => crate::history::write_atomically(path, write)?,
        None => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            match write(&mut out).and_then(|()| out.flush()) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
    }
    Ok(())
}

/// Writes a value as indented JSON and a newline.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut dyn Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn days_have_dates() {
        for (day, date) in [
            (0, "1970-01-01"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (19_723, "2024-01-01"),
            (20_453, "2025-12-31"),
        ] {
            assert_eq!(date_of_day(day), date);
        }
    }

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: GenerationArgs,
    }

    #[test]
    fn arguments_become_settings() {
        let parse = |line: &str| {
            Wrapper::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))
                .map(|wrapper| wrapper.args)
        };
        assert_eq!(parse("").unwrap().settings(), GenerationSettings::default());
        let settings = parse("--max-tokens 9 --temperature 0.5 --top-p 0.9 --top-k 4 --seed 3 --thinking off --reasoning-effort low").unwrap().settings();
        let sampling = SamplingParams { temperature: 0.5, top_k: 4, top_p: 0.9, seed: 3 };
        let expected = GenerationSettings {
            max_tokens: 9,
            sampling,
            thinking: Some(false),
            reasoning_effort: Some("low".into()),
        };
        assert_eq!(settings, expected);
        assert!(parse("--thinking maybe").is_err());
        assert_eq!(parse("--date 2026-01-02").unwrap().run_options().date, "2026-01-02");
    }
}
