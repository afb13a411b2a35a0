//! `longwick probe`: an A/B question to a history.

use super::model_args::ModelArgs;
use super::task_args::{GenerationArgs, HistoryArgs, write_json, write_output};
use super::watched::Progress;
use super::{CliResult, Outcome};
use crate::compint::{Protocol, protocol};
use crate::history::{Message, Role};
use crate::tasks::ReasoningMode;
use crate::tasks::probe::{ChoiceProbe, GenerateProbe, Letter};
use std::path::PathBuf;

/// Ask a model which of two behaviours is right, after a history.
///
/// `generate` lets it answer and reads the last line; `choice` compares the log-probabilities of A and B. The result
/// is JSON.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick probe chat.json --model qwen3-4b --request 'Mail Ann the plan.' --a 'Sends it.' --b 'Drafts it.'
  longwick probe chat.json --model qwen3-4b --mode choice --reasoning closed \\
      --request 'Mail Ann the plan.' --a 'Sends it.' --b 'Drafts it.'

Exit code 1: the answer could not be scored.")]
pub struct ProbeArgs {
    /// The history.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// How it generates.
    #[command(flatten)]
    pub generation: GenerationArgs,
    /// The user's request.
    #[arg(long, value_name = "TEXT")]
    pub request: String,
    /// The first behaviour.
    #[arg(long, value_name = "TEXT")]
    pub a: String,
    /// The second behaviour.
    #[arg(long, value_name = "TEXT")]
    pub b: String,
    /// Let the model answer, or compare the letters' log-probabilities.
    #[arg(long, value_name = "generate|choice", default_value = "generate", value_parser = ["generate", "choice"])]
    pub mode: String,
    /// Under choice, what a reasoning model does first: its own reasoning, or a closed empty one.
    #[arg(long, value_name = "own|closed", default_value = "own", value_parser = reasoning_mode)]
    pub reasoning: ReasoningMode,
    /// A system message before the protocol's own instructions.
    #[arg(long, value_name = "TEXT")]
    pub system: Option<String>,
    /// Whose probe prompt.
    #[arg(long, value_name = "NAME", default_value = protocol::BUILT_IN)]
    pub protocol: String,
    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn reasoning_mode(text: &str) -> Result<ReasoningMode, String> {
    match text {
        "own" => Ok(ReasoningMode::Own),
        "closed" => Ok(ReasoningMode::ClosedEmpty),
        _ => Err("it is own or closed".to_owned()),
    }
}

/// Probes and prints.
///
/// # Errors
/// What reading the history, the protocol or the model refuses, or the engine.
pub fn run(args: ProbeArgs) -> CliResult {
    let history = args.history.load()?;
    let protocol = Protocol::load(&args.protocol)?;
    let messages = messages(&args, &protocol, history.messages);
    let mut engine = args.model.load_engine()?;
    let settings = args.generation.settings();
    let lost = "the probe was lost";
    let progress = Progress::new("probes", 1);
    let is_scored = if args.mode == "choice" {
        let job = ChoiceProbe::new(messages, settings, args.reasoning);
        let outcome = args.generation.run(&mut engine, &progress, vec![job])?.pop().ok_or(lost)?;
        write_output(args.out.as_deref(), |out| write_json(out, &outcome))?;
        is_scored(&outcome.letter)
    } else {
        let job = GenerateProbe::new(messages, settings);
        let outcome = args.generation.run(&mut engine, &progress, vec![job])?.pop().ok_or(lost)?;
        write_output(args.out.as_deref(), |out| write_json(out, &outcome))?;
        is_scored(&outcome.letter)
    };
    args.model.say_kv_cache(&engine);
    Ok(if is_scored { Outcome::Finished } else { Outcome::FinishedWithFailures })
}

/// Whether there is a letter; why there is none goes to standard error.
fn is_scored(letter: &crate::tasks::Outcome<Letter>) -> bool {
    match letter {
        crate::tasks::Outcome::Scored { .. } => true,
        crate::tasks::Outcome::Unscored { reason } => {
            eprintln!("unscored: {reason}");
            false
        }
        crate::tasks::Outcome::Failed { failure } => {
            eprintln!("failed: {failure}");
            false
        }
    }
}

/// System, developer, history, probe: the order of the published benchmark.
fn messages(args: &ProbeArgs, protocol: &Protocol, history: Vec<Message>) -> Vec<Message> {
    let system = args.system.iter().map(|text| Message::text(Role::System, text.clone()));
    let developer = Message::text(Role::Developer, protocol.developer_prompt.clone());
    let probe =
        protocol.probe.render(&[("probe", &args.request), ("option_a", &args.a), ("option_b", &args.b)]);
    system.chain([developer]).chain(history).chain([Message::text(Role::User, probe)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: ProbeArgs,
    }

    #[test]
    fn the_probe_comes_last_with_its_options_in_order() {
        let line = [
            "x",
            "h.json",
            "--model",
            "m",
            "--request",
            "Do it.",
            "--a",
            "First.",
            "--b",
            "Second.",
            "--system",
            "S",
        ];
        let args = Wrapper::try_parse_from(line).unwrap().args;
        let protocol = Protocol::load(protocol::BUILT_IN).unwrap();
        let messages = messages(&args, &protocol, vec![Message::text(Role::User, "hello")]);
        let roles: Vec<&str> = messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "developer", "user", "user"]);
        let probe = messages[3].plain_text();
        let place = |text: &str| probe.find(text).unwrap();
        assert!(place("Do it.") < place("First.") && place("First.") < place("Second."));
    }

    #[test]
    fn wrong_modes_are_refused() {
        for wrong in [["--mode", "guess"], ["--reasoning", "none"]] {
            let line = ["x", "h.json", "--model", "m", "--request", "r", "--a", "a", "--b", "b"];
            assert!(Wrapper::try_parse_from(line.into_iter().chain(wrong)).is_err());
        }
    }
}
