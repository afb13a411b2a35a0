//! `longwick extract`: the session constraints of a history.

use super::model_args::ModelArgs;
use super::task_args::{GenerationArgs, HistoryArgs, write_json, write_output};
use super::watched::Progress;
use super::{CliError, CliResult, Outcome, counted};
use crate::compint::{Protocol, protocol};
use crate::engine::Engine;
use crate::tasks::extract::{ExtractJob, ExtractSettings, Extraction, ExtractionParse, RegisteredConstraint};
use crate::tasks::{Job, JobStep, RequestResult, TaskContext};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Find the user's session constraints in a history, turn by turn.
///
/// Prints each constraint on a line as soon as it is found, so that Ctrl-C loses none that was printed; a turn whose
/// answer cannot be read is reported on standard error, and the next goes on. With --json or --out the output comes
/// at the end, whole.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick extract chat.json --model smollm2-135m --max-tokens 192
  longwick extract rows.jsonl --index 3 --model qwen3-4b --thinking off --json --out constraints.json
  longwick extract chat.json --model qwen3-4b --parse paper --protocol conpact-0.1.0

JSON: {\"registry\": {\"constraints\": [{\"text\", \"evidence\", \"message\", \"evidence_found\"}]},
\"turns\": [{\"message\", \"found\", \"added\", \"failure\", \"usage\"}]}; messages count from 0.

Under the grammar an answer is bounded so that it fits into --max-tokens: fewer and shorter constraints a turn
where there are few tokens. An answer that is cut off all the same is a failed turn.

Exit code 1: some turns failed.")]
pub struct ExtractArgs {
    /// The history.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// How it generates.
    #[command(flatten)]
    pub generation: GenerationArgs,
    /// Whose extraction prompts.
    #[arg(long, value_name = "NAME", default_value = protocol::BUILT_IN)]
    pub protocol: String,
    /// Which of the protocol's extraction prompts.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub prompt: String,
    /// How answers are read: bound by a grammar, or free text read as the paper reads it.
    #[arg(long, value_name = "grammar|paper", default_value = "grammar", value_parser = parse_kind)]
    pub parse: ExtractionParse,
    /// Print constraints and turns as JSON.
    #[arg(long)]
    pub json: bool,
    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn parse_kind(text: &str) -> Result<ExtractionParse, String> {
    match text {
        "grammar" => Ok(ExtractionParse::Grammar),
        "paper" => Ok(ExtractionParse::Paper),
        _ => Err("it is grammar or paper".to_owned()),
    }
}

/// Extracts and prints.
///
/// # Errors
/// What reading the history, the protocol or the model refuses, or the engine.
pub fn run(args: ExtractArgs) -> CliResult {
    let history = args.history.load()?;
    let protocol = Protocol::load(&args.protocol)?;
    let prompt = Arc::new(protocol.extraction_prompt(&args.prompt)?.clone());
    let settings = ExtractSettings {
        generation: args.generation.settings(),
        parse: args.parse,
        ..ExtractSettings::default()
    };
    let mut engine = args.model.load_engine()?;
    let job = ExtractJob::new(history.messages.into(), prompt, settings);
    let is_whole = args.json || args.out.is_some();
    let mut written = Ok(());
    let extraction = extract(&args.generation, &mut engine, job, &mut |index, constraint| {
        if is_whole {
            return true;
        }
        let mut out = io::stdout().lock();
        written = write_line(&mut out, index, constraint).and_then(|()| out.flush());
        written.is_ok()
    })?;
    args.model.say_kv_cache(&engine);
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::Finished),
        written => written?,
    }
    if is_whole {
        write_output(args.out.as_deref(), |out| match args.json {
            true => write_json(out, &extraction),
            false => write_lines(out, &extraction),
        })?;
    }
    Ok(report(&extraction))
}

/// Runs an extraction with its turns as progress. `on_found` gets each constraint as it is found, with its place in
/// the registry, and says whether to go on.
pub(super) fn extract(
    generation: &GenerationArgs,
    engine: &mut Engine,
    job: ExtractJob,
    on_found: &mut dyn FnMut(usize, &RegisteredConstraint) -> bool,
) -> Result<Extraction, CliError> {
    let progress = Progress::new("turns", job.num_turns());
    let job = Reported { job, progress: progress.clone(), turns: 0, constraints: 0, on_found };
    let mut outputs = generation.run(engine, &progress, vec![job])?;
    Ok(outputs.pop().unwrap_or_default())
}

/// An extraction that tells what it finds while it goes on.
struct Reported<'f> {
    job: ExtractJob,
    progress: Progress,
    turns: usize,
    constraints: usize,
    on_found: &'f mut dyn FnMut(usize, &RegisteredConstraint) -> bool,
}

impl Reported<'_> {
    /// Tells what is new; false where no more is wanted.
    fn tell(&mut self, extraction: &Extraction) -> bool {
        for turn in &extraction.turns[self.turns..] {
            self.progress.advance();
            if let Some(failure) = &turn.failure {
                self.progress.print(|| eprintln!("turn at message {} failed: {failure}", turn.message));
            }
        }
        self.turns = extraction.turns.len();
        let constraints = &extraction.registry.constraints;
        for (index, constraint) in constraints.iter().enumerate().skip(self.constraints) {
            self.constraints = index + 1;
            if !self.progress.print(|| (self.on_found)(index, constraint)) {
                return false;
            }
        }
        true
    }
}

impl Job for Reported<'_> {
    type Output = Extraction;

    fn advance(&mut self, context: &TaskContext<'_>, previous: Option<RequestResult>) -> JobStep<Extraction> {
        let step = self.job.advance(context, previous);
        match step {
            JobStep::Done(extraction) => {
                self.tell(&extraction);
                JobStep::Done(extraction)
            }
            JobStep::Working { done, total } => JobStep::Working { done, total },
            JobStep::Submit(request) => {
                let so_far = self.job.so_far().clone();
                if self.tell(&so_far) { JobStep::Submit(request) } else { JobStep::Done(so_far) }
            }
        }
    }
}

fn write_line(out: &mut dyn Write, index: usize, constraint: &RegisteredConstraint) -> io::Result<()> {
    let mark = if constraint.evidence_found { "" } else { "  [evidence not in the turn]" };
    // A constraint may hold line breaks; a line of output is one constraint.
    let text = constraint.text.split_whitespace().collect::<Vec<_>>().join(" ");
    writeln!(out, "{}. {text}  (message {}){mark}", index + 1, constraint.message)
}

fn write_lines(out: &mut dyn Write, extraction: &Extraction) -> io::Result<()> {
    let constraints = extraction.registry.constraints.iter().enumerate();
    constraints.into_iter().try_for_each(|(index, constraint)| write_line(out, index, constraint))
}

/// One line in all, on standard error; failed turns were told as they failed.
pub(super) fn report(extraction: &Extraction) -> Outcome {
    let failed = extraction.failed_turns();
    let constraints = counted(extraction.registry.constraints.len(), "constraint");
    let turns = counted(extraction.turns.len(), "user turn");
    eprintln!("{constraints} in {turns}, {} failed", counted(failed, "turn"));
    if failed == 0 { Outcome::Finished } else { Outcome::FinishedWithFailures }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::extract::{ConstraintRegistry, RegisteredConstraint};
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: ExtractArgs,
    }

    #[test]
    fn the_reading_is_grammar_unless_asked_otherwise() {
        let parse = |line: &str| Wrapper::try_parse_from(line.split(' ')).map(|wrapper| wrapper.args.parse);
        assert_eq!(parse("x h.json --model m").unwrap(), ExtractionParse::Grammar);
        assert_eq!(parse("x h.json --model m --parse paper").unwrap(), ExtractionParse::Paper);
        assert!(parse("x h.json --model m --parse other").is_err());
    }

    #[test]
    fn made_up_evidence_is_marked() {
        let constraint = |text: &str, evidence_found| RegisteredConstraint {
            text: text.to_owned(),
            evidence: String::new(),
            message: 4,
            evidence_found,
        };
        let registry =
            ConstraintRegistry { constraints: vec![constraint("a", true), constraint("b", false)] };
        let mut out = Vec::new();
        write_lines(&mut out, &Extraction { registry, turns: vec![] }).unwrap();
        let expected = "1. a  (message 4)\n2. b  (message 4)  [evidence not in the turn]\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
