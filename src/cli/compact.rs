//! `longwick compact`: a shorter history.

use super::model_args::{ModelArgs, with_load_bar};
use super::task_args::{GenerationArgs, HistoryArgs, write_json, write_output};
use super::watched::Progress;
use super::{CliError, CliResult, Outcome, counted};
use crate::compint::{NamedSummary, Protocol, protocol};
use crate::history::History;
use crate::tasks::compact::lingua::LlmLingua2;
use crate::tasks::compact::{
    CompactJob, CompactionInput, CompactionResult, CompactorSpec, CutoffPolicy, SummaryPrompt,
};
use crate::tasks::extract::{ExtractJob, ExtractSettings};
use crate::weights::fetch::resolve_model;
use std::path::PathBuf;
use std::sync::Arc;

/// Compact a history.
///
/// Prints the messages that replace it, one a line, in longwick's own format.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Compactors:
  recent-N                  the last N messages
  user-turns[:N]            the user's newest messages within N tokens (20000)
  user-turns:HEAD+TAIL      his oldest within HEAD tokens and his newest within TAIL
  mask-observations[:K]     all messages, with a stub for each tool result older than the newest K (10)
  llm:PROMPT                a summary by the model
  llmlingua2[:N]            the words that an --encoder keeps within N tokens (500)
  ...+extractor             any of these, and the constraints found in the history after it

Prompts of longwick-1, the built-in protocol:
  llm:constraint-aware, llm:continuity, llm:structured

Examples:
  longwick compact chat.json --compactor recent-5 --model smollm2-135m
  longwick compact agent.json --compactor llm:continuity+extractor --model qwen3-4b --max-tokens 1024 --out short.jsonl
  longwick compact agent.json --compactor mask-observations:3 --model qwen3-4b --json
  longwick compact chat.json --compactor llmlingua2 --encoder llmlingua2-mbert --model smollm2-135m

The model counts tokens, writes the summary of llm, and extracts for +extractor; the encoder chooses the words of
llmlingua2. Exit code 1: the compaction failed,
or a turn's extraction did.")]
pub struct CompactArgs {
    /// The history.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// The model.
    #[command(flatten)]
    pub model: ModelArgs,
    /// How it generates.
    #[command(flatten)]
    pub generation: GenerationArgs,
    /// The compactor: recent-N, user-turns[:N or :HEAD+TAIL], mask-observations[:K] or llm:PROMPT, each with
    /// +extractor; the list is below.
    #[arg(long, value_name = "NAME")]
    pub compactor: CompactorSpec,
    /// The encoder of llmlingua2: a name of `longwick models list`, or a path to an HF folder.
    #[arg(long, value_name = "MODEL")]
    pub encoder: Option<String>,
    /// Whose prompts.
    #[arg(long, value_name = "NAME", default_value = protocol::BUILT_IN)]
    pub protocol: String,
    /// Which of the protocol's extraction prompts, for +extractor.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub extract_prompt: String,
    /// What becomes of a summary that was cut off: a failure, or kept as it is.
    #[arg(long, value_name = "fail|keep", default_value = "fail", value_parser = cutoff)]
    pub cutoff: CutoffPolicy,
    /// Print the whole result as JSON: messages, tokens, finish reason, failure, text, reasoning.
    #[arg(long)]
    pub json: bool,
    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn cutoff(text: &str) -> Result<CutoffPolicy, String> {
    match text {
        "fail" => Ok(CutoffPolicy::Fail),
        "keep" => Ok(CutoffPolicy::Keep),
        _ => Err("it is fail or keep".to_owned()),
    }
}

/// Compacts and prints.
///
/// # Errors
/// What reading the history, the protocol or the model refuses, a compactor that cannot run on this history, or the
/// engine.
pub fn run(args: CompactArgs) -> CliResult {
    let history: Arc<[_]> = args.history.load()?.messages.into();
    let protocol = Arc::new(Protocol::load(&args.protocol)?);
    let prompt = match args.compactor.prompt_name() {
        Some(name) => Some(Arc::new(NamedSummary::new(protocol.clone(), name)?) as Arc<dyn SummaryPrompt>),
        None => None,
    };
    let extraction_prompt = match args.compactor.extractor {
        true => Some(Arc::new(protocol.extraction_prompt(&args.extract_prompt)?.clone())),
        false => None,
    };
    let encoder = load_encoder(&args)?;
    let mut engine = args.model.load_engine()?;
    let settings = args.generation.settings();
    let mut outcome = Outcome::Finished;
    let mut constraints = None;
    if let Some(extraction_prompt) = extraction_prompt {
        let extract = ExtractSettings { generation: settings.clone(), ..ExtractSettings::default() };
        let job = ExtractJob::new(history.clone(), extraction_prompt.clone(), extract);
        let extraction = super::extract::extract(&args.generation, &mut engine, job, &mut |_, _| true)?;
        outcome = super::extract::report(&extraction);
        constraints = Some(extraction_prompt.constraints(&extraction.registry));
    }
    let input = CompactionInput { history, prompt, settings, cutoff: args.cutoff, encoder, constraints };
    let job = CompactJob::new(&args.compactor, input)?;
    let result = args
        .generation
        .run(&mut engine, &Progress::new("compactions", 1), vec![job])?
        .pop()
        .ok_or("the compaction was lost")?;
    args.model.say_kv_cache(&engine);
    print(&args, &result)?;
    Ok(if result.failure.is_some() { Outcome::FinishedWithFailures } else { outcome })
}

fn load_encoder(args: &CompactArgs) -> Result<Option<Arc<LlmLingua2>>, CliError> {
    let name = match (&args.encoder, args.compactor.needs_encoder()) {
        (None, false) => return Ok(None),
        (Some(name), true) => name,
        (None, true) => {
            let reason = "needs --encoder MODEL, such as llmlingua2-mbert (longwick models list)";
            return Err(format!("{} {reason}", args.compactor).into());
        }
        (Some(_), false) => return Err(format!("--encoder: {} has no encoder", args.compactor).into()),
    };
    let path = resolve_model(name)?;
    let loaded = with_load_bar(|progress| Ok(LlmLingua2::load(&path, args.model.engine.threads, progress)?))?;
    Ok(Some(Arc::new(loaded)))
}

fn print(
    args: &CompactArgs,
    result: &CompactionResult,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if args.json {
        write_output(args.out.as_deref(), |out| write_json(out, result))?;
    } else if result.failure.is_none() {
        let history = History { messages: result.messages.clone(), ..History::default() };
        write_output(args.out.as_deref(), |out| history.write_jsonl(out))?;
    }
    match &result.failure {
        Some(failure) => eprintln!("{} failed: {failure}", args.compactor),
        None => eprintln!(
            "{}: {} became {} in {}",
            args.compactor,
            counted(result.tokens_before, "token"),
            result.tokens_after,
            counted(result.messages.len(), "message")
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: CompactArgs,
    }

    #[test]
    fn the_help_lists_the_prompts_of_the_built_in_protocol() {
        let help = Wrapper::command().render_long_help().to_string();
        let protocol = Protocol::load(protocol::BUILT_IN).unwrap();
        let names: Vec<String> = protocol.compaction.keys().map(|name| format!("llm:{name}")).collect();
        assert!(help.contains(&format!("  {}\n", names.join(", "))), "{help}");
    }

    fn parse(line: &str) -> Result<CompactArgs, clap::Error> {
        Wrapper::try_parse_from(line.split(' ')).map(|wrapper| wrapper.args)
    }

    #[test]
    fn compactors_are_named_as_in_configurations() {
        let args = parse("x h.json --model m --compactor user-turns:4+4+extractor --cutoff keep").unwrap();
        assert_eq!(args.compactor.to_string(), "user-turns:4+4+extractor");
        assert_eq!(args.cutoff, CutoffPolicy::Keep);
        let error = parse("x h.json --model m --compactor shrink").err().unwrap().to_string();
        assert!(error.contains("mask-observations"), "{error}");
        assert!(parse("x h.json --model m --compactor recent-1 --cutoff maybe").is_err());
        assert!(parse("x h.json --model m").is_err());
    }

    #[test]
    fn an_encoder_goes_with_the_compactor_that_has_one() {
        let refused = |line: &str| load_encoder(&parse(line).unwrap()).err().unwrap().to_string();
        let error = refused("x h.json --model m --compactor llmlingua2");
        assert!(error.contains("llmlingua2:500 needs --encoder"), "{error}");
        let error = refused("x h.json --model m --compactor recent-5 --encoder e");
        assert!(error.contains("recent-5 has no encoder"), "{error}");
        assert!(load_encoder(&parse("x h.json --model m --compactor recent-5").unwrap()).unwrap().is_none());
    }
}
