//! `longwick run`: an experiment.

use super::model_args::{KvCacheArgs, kv_cache_line};
use super::run_progress::Progress;
use super::run_table::{print_estimate, print_result};
use super::task_args::today;
use super::{CliResult, Outcome};
use crate::compint::config::RunConfig;
use crate::compint::runner::Experiment;
use crate::store::RunStore;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run an experiment: put constraints into histories, compact, extract, judge what is retained, and probe.
///
/// Results go to OUTPUT/NAME: run.sqlite, and a folder for each setting and compactor with results.jsonl, summary.csv,
/// intervals.csv, details.jsonl and choice.jsonl. The same command goes on where it stopped; whatever was done, under
/// whichever config of that name, is not done again.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick run configs/quickstart.toml
  longwick run configs/rq1.toml --dry-run
  longwick run configs/rq1.toml --kv-cache ~/longwick-kv --kv-cache-size 200GiB

Exit code 0: all is done. 1: all is done, and some instances failed. 2: stopped, or refused.")]
pub struct RunArgs {
    /// The experiment, a TOML file.
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Say what it would take, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Let unscored answers fail the run too (exit code 1).
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kv_cache: KvCacheArgs,
}

/// Runs, exports, prints the table.
///
/// # Errors
/// What the config, its files and models, the store or the engine refuse.
pub fn run(args: RunArgs) -> CliResult {
    // A dry run leaves nothing behind.
    let kv_directory = if args.dry_run { None } else { args.kv_cache.options()? };
    let mut experiment = Experiment::prepare(RunConfig::load(&args.config)?)?;
    experiment.keep_prefixes(kv_directory);
    if args.dry_run {
        print_estimate(&experiment)?;
        return Ok(Outcome::Finished);
    }
    let folder = experiment.config().folder();
    let mut store = RunStore::open(&folder)?;
    let interrupted = stop_on_signal()?;
    let mut progress = Progress::new();
    let report = experiment.run(&mut store, &mut progress, &today(), &interrupted)?;
    progress.finish();
    let strict = if args.strict { " --strict" } else { "" };
    if report.interrupted {
        let results = store.num_results()?;
        err_line!(
            "stopped; {results} results are kept. To go on: longwick run {}{strict}",
            args.config.display()
        );
        return Ok(Outcome::Stopped);
    }
    let exported = store.export(&folder)?;
    print_result(&experiment, &report, &exported, store.prefill()?, &store.recovered()?)?;
    if let Some(folder) = &args.kv_cache.kv_cache {
        out_line!("{}", kv_cache_line(folder, report.kv_directory()))?;
    }
    let failed = exported.summaries.iter().any(|summary| summary.failed > 0);
    let unscored = exported.summaries.iter().any(|summary| summary.unscored > 0);
    Ok(if failed || (args.strict && unscored) { Outcome::FinishedWithFailures } else { Outcome::Finished })
}

/// The first Ctrl-C (or SIGTERM) lets the step under way finish, the second ends the process at once; what is in the
/// database stays whole either way.
fn stop_on_signal() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        err_line!("\nfinishing the step under way; press Ctrl-C again to stop at once");
    })?;
    Ok(interrupted)
}
