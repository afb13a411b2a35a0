//! `longwick bench restore`: reading a saved session against computing it.

use std::num::NonZeroUsize;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::bench::{check_lengths, prompt};
use super::model_args::{ModelArgs, with_load_bar, with_option};
use super::watched::Progress;
use super::{CliError, CliResult, Outcome};
use crate::engine::{Engine, EngineOptions};

/// Arguments of `longwick bench restore`.
#[derive(Debug, clap::Args)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Prompt lengths in tokens
    #[arg(long, value_delimiter = ',', default_value = "512,4096")]
    lengths: Vec<usize>,
    /// Measured runs a length; the fastest counts
    #[arg(long, default_value = "3")]
    runs: NonZeroUsize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Measurement {
    length: usize,
    prefill_seconds: f64,
    save_seconds: f64,
    restore_seconds: f64,
    file_bytes: u64,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the model or the lengths, or with the folder for temporary files.
pub(super) fn run(args: &RestoreArgs) -> CliResult {
    if args.lengths.contains(&0) {
        return Err("--lengths 0: there is nothing to restore of no tokens".into());
    }
    let path = args.model.path()?;
    let options = args.model.engine.options()?;
    let engine = load(&path, &options)?;
    check_lengths(&args.lengths, 1, engine.context_length())?;
    let name = format!("longwick-bench-restore-{}.kv", std::process::id());
    let file = std::env::temp_dir().join(name);
    let outcome = measure_all(args, &path, &options, engine, &file);
    // A file that was never written is not there to remove.
    let _ = std::fs::remove_file(&file);
    outcome
}

fn measure_all(
    args: &RestoreArgs,
    path: &Path,
    options: &EngineOptions,
    mut engine: Engine,
    file: &Path,
) -> CliResult {
    let progress = Progress::new("runs", args.lengths.len() * args.runs.get());
    let mut results = Vec::new();
    for (place, &length) in args.lengths.iter().enumerate() {
        let mut best: Option<Measurement> = None;
        for run in 0..args.runs.get() {
            let number = (place * args.runs.get() + run) as u32;
            let tokens = prompt(length, number, engine.config().vocab_size);
            let found = measure(&mut engine, path, options, &tokens, file)?;
            best = Some(best.map_or(found, |best| fastest(best, found)));
            progress.advance();
        }
        let Some(best) = best else { continue };
        if !args.json {
            let mib = best.file_bytes as f64 / (1 << 20) as f64;
            progress.print(|| {
                out_line!(
                    "{length:>7} tokens: prefill {:>8.3} s, save {:>7.3} s, restore {:>7.3} s, {mib:.1} MiB",
                    best.prefill_seconds,
                    best.save_seconds,
                    best.restore_seconds
                )
            })?;
        }
        results.push(best);
    }
    progress.finish();
    if args.json {
        let report = serde_json::json!({
            "bench": "restore",
            "model": args.model.model,
            "device": engine.arithmetic(),
            "threads": engine.threads(),
            "version": env!("CARGO_PKG_VERSION"),
            "results": results,
        });
        out_line!("{report:#}")?;
    }
    Ok(Outcome::Finished)
}

/// One prefill, its file, and the file's restoration in an engine that has seen nothing.
fn measure(
    engine: &mut Engine,
    path: &Path,
    options: &EngineOptions,
    tokens: &[u32],
    file: &Path,
) -> Result<Measurement, CliError> {
    let start = Instant::now();
    let session = engine.open_session(tokens)?;
    let prefill_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let file_bytes = engine.save_session(&session, file)?;
    let save_seconds = start.elapsed().as_secs_f64();
    engine.close_session(session);
    let mut fresh = load(path, options)?;
    let start = Instant::now();
    let restored = fresh.restore_session(file)?;
    let restore_seconds = start.elapsed().as_secs_f64();
    if fresh.session_tokens(&restored)? != tokens {
        return Err(format!("{}: other tokens were restored than saved", file.display()).into());
    }
    Ok(Measurement { length: tokens.len(), prefill_seconds, save_seconds, restore_seconds, file_bytes })
}

fn fastest(a: Measurement, b: Measurement) -> Measurement {
    Measurement {
        prefill_seconds: a.prefill_seconds.min(b.prefill_seconds),
        save_seconds: a.save_seconds.min(b.save_seconds),
        restore_seconds: a.restore_seconds.min(b.restore_seconds),
        ..a
    }
}

fn load(path: &Path, options: &EngineOptions) -> Result<Engine, CliError> {
    with_load_bar(|progress| Engine::load(path, options.clone(), progress).map_err(with_option))
}
