//! `longwick bench`: prefill and decode speed of a model.

use std::num::NonZeroUsize;
use std::time::Instant;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use super::bench_attention::AttentionArgs;
use super::bench_restore::RestoreArgs;
use super::model_args::{ModelArgs, with_option};
use super::watched::{Progress, Watched};
use super::{CliError, CliResult, Outcome};
use crate::engine::{Engine, EngineOptions, GenerateParams, Request, RequestKind};
use crate::ops::roofline::Card;
use crate::tasks::Inference;
use crate::weights::Quantization;

/// Arguments of `longwick bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  longwick bench prefill -m gemma3-270m --lengths 512,4096
  longwick bench decode -m smollm2-135m --lengths 0,4096 --json
  longwick bench restore -m gemma3-270m --lengths 8192
  longwick bench attention --model-only")]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Time to compute prompts of given lengths, nothing cached
    #[command(after_help = "Examples:
  longwick bench prefill -m smollm2-135m
  longwick bench prefill -m gemma3-270m --lengths 512,4096 --runs 5 --json
  longwick bench prefill -m qwen3-8b --device cuda --kv-dtype bf16 --chunk 2048 --lengths 32768 --card rtx-4090")]
    Prefill(PrefillArgs),
    /// Time per new token after prompts of given lengths
    #[command(after_help = "Examples:
  longwick bench decode -m smollm2-135m --lengths 0,4096
  longwick bench decode -m gemma3-270m --lengths 4096 --new-tokens 128 --json")]
    Decode(MeasureArgs),
    /// What the attention kernels and those around them must move and compute, and the least time a card needs for it
    #[command(after_help = "Examples:
  longwick bench attention --model-only
  longwick bench attention --model-only --models qwen3-8b --contexts 131072 --card rtx-5090 --cache fp8 --json")]
    Attention(AttentionArgs),
    /// Time to save a computed prompt to a file, and to read it in a new engine, beside the time to compute it
    #[command(after_help = "Examples:
  longwick bench restore -m gemma3-270m --lengths 8192,32000 --runs 1")]
    Restore(RestoreArgs),
}

#[derive(Debug, clap::Args)]
struct PrefillArgs {
    #[command(flatten)]
    measure: MeasureArgs,
    /// Print beside each time the least that this card needs for it; of a dense model, as if in bf16
    #[arg(long, value_parser = super::bench_attention::card)]
    card: Option<&'static Card>,
}

#[derive(Debug, clap::Args)]
struct MeasureArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompt lengths in tokens
    #[arg(long, value_delimiter = ',', default_value = "512,4096")]
    lengths: Vec<usize>,
    /// Measured runs a length; the fastest counts
    #[arg(long, default_value = "3")]
    runs: NonZeroUsize,
    /// New tokens (decode)
    #[arg(long, default_value = "64")]
    new_tokens: NonZeroUsize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Phase {
    Prefill,
    Decode,
}

#[derive(Debug, Serialize)]
struct Measurement {
    length: usize,
    seconds: f64,
    tokens_per_second: f64,
    /// The least time that the named card needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor_seconds: Option<f64>,
    peak_memory_bytes: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the model or the lengths.
pub fn run(args: BenchArgs) -> CliResult {
    let (phase, args, card) = match args.what {
        What::Prefill(args) => (Phase::Prefill, args.measure, args.card),
        What::Decode(args) => (Phase::Decode, args, None),
        What::Attention(args) => return super::bench_attention::run(&args),
        What::Restore(args) => return super::bench_restore::run(&args),
    };
    let path = args.model.path()?;
    // Every run must compute its whole prompt.
    let options = EngineOptions { prefix_cache: false, ..args.model.engine.options()? };
    let mut engine = super::model_args::with_load_bar(|progress| {
        Engine::load(&path, options, progress).map_err(with_option)
    })?;
    args.model.tell_loaded(&engine);
    let new_tokens = if phase == Phase::Prefill { 1 } else { args.new_tokens.get() + 1 };
    if phase == Phase::Prefill && args.lengths.contains(&0) {
        return Err("--lengths 0: a prefill needs at least one token".into());
    }
    check_lengths(&args.lengths, new_tokens, engine.context_length())?;
    let progress = Progress::new("runs", args.lengths.len() * args.runs.get());
    let mut results = Vec::new();
    for (place, &length) in args.lengths.iter().enumerate() {
        let floor = |card| {
            let options = &args.model.engine;
            let steps = (length, options.chunk.get());
            super::bench_floor::prefill_seconds(engine.config(), options.kv_dtype, steps, card)
        };
        let floor_seconds = card.map(floor).transpose()?;
        let measurement =
            Measurement { floor_seconds, ..measure(&mut engine, &progress, phase, (place, length), &args)? };
        if !args.json {
            let (seconds, rate) = (measurement.seconds, measurement.tokens_per_second);
            let floor = card.zip(floor_seconds).map_or(String::new(), |(card, floor)| {
                format!(", {:.1} times the {floor:.3} s that {} needs at least", seconds / floor, card.name)
            });
            progress.print(|| {
                out_line!("{phase:?} {length:>7} tokens: {seconds:>9.3} s, {rate:>8.1} tokens/s{floor}")
            })?;
        }
        results.push(measurement);
    }
    progress.finish();
    if args.json {
        let report = serde_json::json!({
            "bench": phase,
            "model": args.model.model,
            "device": engine.arithmetic(),
            "threads": engine.threads(),
            "quantize": args.model.engine.quantize.map(Quantization::name),
            "version": env!("CARGO_PKG_VERSION"),
            "results": results,
        });
        out_line!("{report:#}")?;
    }
    Ok(Outcome::Finished)
}

/// A length that cannot be measured is refused before anything is computed.
pub(super) fn check_lengths(lengths: &[usize], new_tokens: usize, context: usize) -> Result<(), CliError> {
    let fits = |length: usize| length.saturating_add(new_tokens) <= context;
    match lengths.iter().find(|&&length| !fits(length)) {
        None => Ok(()),
        Some(length) => Err(format!(
            "--lengths {length}: with {new_tokens} new tokens it does not fit the model's context of {context}"
        )
        .into()),
    }
}

fn measure(
    engine: &mut Engine,
    progress: &Progress,
    phase: Phase,
    (place, length): (usize, usize),
    args: &MeasureArgs,
) -> Result<Measurement, CliError> {
    reset_peak_memory();
    let mut best = f64::INFINITY;
    for run in 0..args.runs.get() {
        // No prompt comes twice: the engine answers a request it has just answered without computing it.
        let number = place * args.runs.get() + run;
        let prompt = prompt(length.max(1), number as u32, engine.config().vocab_size);
        let mut watched = Watched::new(engine, progress.clone(), false);
        let seconds = match phase {
            Phase::Prefill => time_prefill(&mut watched, prompt)?,
            Phase::Decode => time_decode(&mut watched, prompt, args.new_tokens.get())?,
        };
        progress.advance();
        best = best.min(seconds);
    }
    let tokens = if phase == Phase::Prefill { length } else { args.new_tokens.get() };
    Ok(Measurement {
        length,
        seconds: best,
        tokens_per_second: tokens as f64 / best,
        floor_seconds: None,
        peak_memory_bytes: peak_memory(),
    })
}

fn generate(prompt: Vec<u32>, max_tokens: usize) -> Request {
    let params = GenerateParams { max_tokens, ignore_eos: true, ..GenerateParams::default() };
    Request::new(prompt, RequestKind::Generate(params))
}

fn time_prefill(engine: &mut Watched<'_>, prompt: Vec<u32>) -> Result<f64, CliError> {
    let start = Instant::now();
    engine.submit(generate(prompt, 1))?;
    while engine.has_work() {
        engine.step()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds from the first new token, which comes out of the prefill, to the last of `new_tokens` more.
fn time_decode(engine: &mut Watched<'_>, prompt: Vec<u32>, new_tokens: usize) -> Result<f64, CliError> {
    let before = engine.stats().generated_tokens;
    engine.submit(generate(prompt, new_tokens + 1))?;
    while engine.stats().generated_tokens == before {
        engine.step()?;
    }
    let start = Instant::now();
    while engine.has_work() {
        engine.step()?;
    }
    Ok(start.elapsed().as_secs_f64())
}

/// Token ids that differ from run to run, spread over the vocabulary.
pub(super) fn prompt(length: usize, run: u32, vocab_size: usize) -> Vec<u32> {
    let vocab = vocab_size as u32;
    (0..length as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(run * 7919) >> 7) % vocab)
        .collect()
}

/// Makes the system count the peak from here on, where it can; else the peak is that of the whole process.
fn reset_peak_memory() {
    if let Err(error) = std::fs::write("/proc/self/clear_refs", "5") {
        tracing::debug!("the peak of resident memory is not reset: {error}");
    }
}

/// The process's peak resident memory in bytes, where the system says it.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
