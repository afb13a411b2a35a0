//! The `longwick` command: parse, dispatch, exit code.
#![allow(clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use longwick::cli::{self, Outcome};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// In-process long-context inference: compaction, constraint extraction and A/B probing without a server.
///
/// Start with `longwick models list`, then `longwick run configs/quickstart.toml`.
#[derive(Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an experiment: inject, compact, extract, judge and probe, as a config says
    Run(cli::run::RunArgs),
    /// List, show, plan, fetch and verify models
    Models(cli::models::ModelsArgs),
    /// Read a history of any supported format
    Import(cli::import::ImportArgs),
    /// Build benchmark instances from haystacks
    Instances(cli::instances::InstancesArgs),
    /// Compact a history
    Compact(cli::compact::CompactArgs),
    /// Find the user's session constraints in a history, turn by turn
    Extract(cli::extract::ExtractArgs),
    /// Judge whether a constraint survived in a compacted context
    Judge(cli::judge::JudgeArgs),
    /// Ask a model which of two behaviours is right after a history
    Probe(cli::probe::ProbeArgs),
    /// Generate text after a prompt
    Generate(cli::generate::GenerateArgs),
    /// Turn texts into vectors
    Embed(cli::embed::EmbedArgs),
    /// Print next-token log-probabilities of given token ids as JSON
    Logits(cli::logits::LogitsArgs),
    /// Measure prefill and decode
    Bench(cli::bench::BenchArgs),
    /// Say what this machine and this build have to run on
    Doctor(cli::doctor::DoctorArgs),
}

fn main() -> ExitCode {
    cli::start_logging();
    let result = match Cli::parse().command {
        Command::Run(args) => cli::run::run(args),
        Command::Models(args) => cli::models::run(args),
        Command::Import(args) => cli::import::run(args),
        Command::Instances(args) => cli::instances::run(args),
        Command::Compact(args) => cli::compact::run(args),
        Command::Extract(args) => cli::extract::run(args),
        Command::Judge(args) => cli::judge::run(args),
        Command::Probe(args) => cli::probe::run(args),
        Command::Generate(args) => cli::generate::run(args),
        Command::Embed(args) => cli::embed::run(args),
        Command::Logits(args) => cli::logits::run(args),
        Command::Bench(args) => cli::bench::run(args),
        Command::Doctor(args) => cli::doctor::run(args),
    };
    match result {
        Ok(Outcome::Finished) => ExitCode::SUCCESS,
        Ok(Outcome::FinishedWithFailures) => ExitCode::from(1),
        Ok(Outcome::Stopped) => ExitCode::from(2),
        Err(error) => {
            eprintln!("longwick: {}", cli::error_line(error.as_ref()));
            ExitCode::from(2)
        }
    }
}
