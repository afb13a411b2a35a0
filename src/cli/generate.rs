//! `longwick generate`: text after a prompt.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::builder::NonEmptyStringValueParser;

use super::model_args::ModelArgs;
use super::task_args::{on_or_off, today};
use super::watched::{Progress, Watched};
use super::{CliError, CliResult, Outcome, counted};
use crate::chat::{ParsedOutput, RenderOptions};
use crate::decode::{Grammar, SamplingParams};
use crate::engine::{
    Completion, Engine, FinishReason, GenerateParams, GrammarStart, Request, RequestKind, RequestOutput,
};
use crate::history::{Message, Role};
use crate::tasks::Inference;
use crate::tokenizer::SpecialTokens;

/// Arguments of `longwick generate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  longwick generate -m smollm2-135m --prompt 'Name three rivers.'
  longwick generate -m gemma3-270m --raw --prompt 'The capital of France is' --max-tokens 8
  longwick generate -m smollm2-135m --schema city.json < question.txt
  longwick generate -m ./Qwen3-4B --quantize q4_k --prompt 'Name three rivers.'

A schema must bound the answer: \"maxLength\" for each string, \"maxItems\" for each array (and its \"items\"),
\"minimum\" and \"maximum\" for each integer, \"additionalProperties\": false for each object; no recursion, and
no \"number\", whose digits have no end. For example:
  {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\", \"maxLength\": 40}},
   \"required\": [\"city\"], \"additionalProperties\": false}")]
pub struct GenerateArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// The prompt [default: standard input]
    #[arg(long, short)]
    prompt: Option<String>,
    /// A system message
    #[arg(long, conflicts_with = "raw")]
    system: Option<String>,
    /// Continue the prompt as plain text, without the chat template
    #[arg(long)]
    raw: bool,
    /// Most new tokens
    #[arg(long, default_value_t = 256)]
    max_tokens: usize,
    /// 0 is greedy
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temperature: f32,
    /// Keep the K most likely tokens (0: all)
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Keep the smallest set of tokens with this probability
    #[arg(long, default_value_t = 1.0)]
    top_p: f32,
    /// Seed of random draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop at this string (repeatable)
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    stop: Vec<String>,
    /// A JSON schema file that the answer must match; it must bound the answer, as said below
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// Whether the model reasons first, where its template has the switch [default: as the template has it]
    #[arg(long, value_name = "on|off", value_parser = on_or_off, conflicts_with = "raw")]
    thinking: Option<bool>,
    /// How much the model reasons, where its template knows it: low, medium or high
    #[arg(long, value_name = "EFFORT", conflicts_with = "raw")]
    reasoning_effort: Option<String>,
    /// The date templates see, YYYY-MM-DD [default: today, UTC]
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Write the prompt to standard error, exactly as the model gets it
    #[arg(long)]
    show_prompt: bool,
    /// Print text, answer, reasoning, tokens, finish reason and timings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the model, the prompt or the grammar.
pub fn run(args: GenerateArgs) -> CliResult {
    let prompt = read_prompt(&args)?;
    let schema = args.schema.as_deref().map(read_schema).transpose()?;
    let mut engine = args.model.load_engine()?;
    let rendered = render(&engine, &args, prompt)?;
    let params = GenerateParams {
        max_tokens: args.max_tokens,
        sampling: SamplingParams {
            temperature: args.temperature,
            top_k: args.top_k,
            top_p: args.top_p,
            seed: args.seed,
        },
        stop_strings: rendered.stop_strings,
        grammar: schema.map(|schema| (Grammar::JsonSchema(schema), rendered.grammar_start)),
        ..GenerateParams::default()
    };
    let prompt_tokens = rendered.tokens.len();
    let request = Request::new(rendered.tokens, RequestKind::Generate(params));
    let completion = complete(&mut engine, args.show_prompt, request)?;
    args.model.say_kv_cache(&engine);
    let seconds = completion.seconds;
    let RequestOutput::Generated { token_ids, text, finish_reason, .. } = completion.output else {
        return match completion.output {
            RequestOutput::Failed(reason) => Err(reason.into()),
            other => Err(format!("the engine answered with {other:?}").into()),
        };
    };
    let parsed = match &rendered.options {
        Some(options) => engine.template()?.parse_output_for(&text, options),
        None => ParsedOutput { answer: text.clone(), ..ParsedOutput::default() },
    };
    let report = serde_json::json!({
        "text": text,
        "answer": parsed.answer,
        "reasoning": parsed.reasoning,
        "recoveries": parsed.recoveries,
        "token_ids": token_ids,
        "finish_reason": finish_reason,
        "prompt_tokens": prompt_tokens,
        "seconds": seconds,
    });
    // A tool call alone leaves no answer, and is then what the model said.
    let said = if parsed.answer.is_empty() && parsed.reasoning.is_none() { &text } else { &parsed.answer };
    match args.json {
        true => out_line!("{report}")?,
        false => out_line!("{said}")?,
    }
    if let (false, Some(reasoning)) = (args.json, &parsed.reasoning) {
        eprintln!("reasoning: {}", reasoning.trim());
    }
    if finish_reason == FinishReason::Length {
        eprintln!("longwick: {}", cut_off(prompt_tokens, token_ids.len(), engine.context_length()));
    }
    Ok(Outcome::Finished)
}

/// Says why an answer was cut off, and the way out where there is one.
fn cut_off(prompt_tokens: usize, new_tokens: usize, context: usize) -> String {
    let after = format!("cut off after {}", counted(new_tokens, "token"));
    match prompt_tokens + new_tokens < context {
        true => format!("{after}; raise --max-tokens for more"),
        false => format!("{after}; the context of {context} tokens is full"),
    }
}

fn read_prompt(args: &GenerateArgs) -> Result<String, CliError> {
    let prompt = match &args.prompt {
        Some(prompt) => prompt.clone(),
        None => {
            let mut stdin = std::io::stdin();
            if stdin.is_terminal() {
                eprintln!(
                    "longwick: reading the prompt from standard input; end it with Ctrl-D (or give --prompt)"
                );
            }
            let mut text = String::new();
            stdin
                .read_to_string(&mut text)
                .map_err(|error| format!("the prompt on standard input: {error}"))?;
            text
        }
    };
    if !args.raw && prompt.trim().is_empty() {
        return Err("the prompt is empty; give --prompt TEXT or write it to standard input".into());
    }
    Ok(prompt)
}

fn read_schema(file: &Path) -> Result<serde_json::Value, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()).into())
}

/// Runs one request to its end, with progress.
fn complete(engine: &mut Engine, show_prompt: bool, request: Request) -> Result<Completion, CliError> {
    let progress = Progress::new("answers", 1);
    let mut watched = Watched::new(engine, progress.clone(), show_prompt);
    let id = watched.submit(request)?;
    let mut found = None;
    while found.is_none() && watched.has_work() {
        found = watched.step()?.into_iter().find(|completion| completion.id == id);
    }
    progress.finish();
    found.ok_or_else(|| "the engine lost the request".into())
}

/// A prompt, and how its answer is read.
struct Rendered {
    tokens: Vec<u32>,
    stop_strings: Vec<String>,
    grammar_start: GrammarStart,
    /// How the template was used; `None` for plain text.
    options: Option<RenderOptions>,
}

fn render(engine: &Engine, args: &GenerateArgs, prompt: String) -> Result<Rendered, CliError> {
    let tokenizer = engine.tokenizer()?;
    if args.raw {
        let mut tokens: Vec<u32> = tokenizer.bos_id().into_iter().collect();
        tokens.extend(tokenizer.encode(&prompt, SpecialTokens::Parse)?);
        let (stop_strings, grammar_start) = (args.stop.clone(), GrammarStart::Immediately);
        return Ok(Rendered { tokens, stop_strings, grammar_start, options: None });
    }
    let template = engine.template()?;
    let system = args.system.iter().map(|text| Message::text(Role::System, text.clone()));
    let messages: Vec<Message> = system.chain([Message::text(Role::User, prompt)]).collect();
    let options = RenderOptions {
        add_generation_prompt: true,
        thinking: args.thinking,
        reasoning_effort: args.reasoning_effort.clone(),
        date: args.date.clone().unwrap_or_else(today),
    };
    let rendered = template.render(tokenizer, &messages, &options)?;
    for adaptation in &rendered.adaptations {
        eprintln!("longwick: prompt adapted: {}", adaptation.name());
    }
    let stop_strings = args.stop.iter().chain(template.stop_strings()).cloned().collect();
    let grammar_start = match template.reasoning_end().filter(|_| template.reasons(&options)) {
        Some(end) => GrammarStart::After(end.to_owned()),
        None => GrammarStart::Immediately,
    };
    Ok(Rendered { tokens: rendered.token_ids, stop_strings, grammar_start, options: Some(options) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: GenerateArgs,
    }

    #[test]
    fn what_cut_an_answer_off_is_said() {
        assert_eq!(cut_off(10, 1, 100), "cut off after 1 token; raise --max-tokens for more");
        assert_eq!(cut_off(10, 90, 100), "cut off after 90 tokens; the context of 100 tokens is full");
    }

    #[test]
    fn an_empty_stop_string_is_refused() {
        let parse =
            |stop| Wrapper::try_parse_from(["x", "-m", "m", "--stop", stop]).map(|wrapper| wrapper.args);
        assert_eq!(parse("END").unwrap().stop, ["END"]);
        assert!(parse("").is_err());
    }

    #[test]
    fn the_schema_of_the_help_can_be_used() {
        let help = Wrapper::command().render_long_help().to_string();
        let (_, example) = help.split_once("For example:").expect("an example");
        let schema = serde_json::from_str(example).expect("JSON");
        crate::decode::check_bounded(&schema).expect("bounded");
    }
}
