//! `longwick models`: list, show, plan, fetch and verify models.
use std::io::IsTerminal;
use std::path::Path;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{CliResult, Outcome};
use crate::weights::fetch::{
    FetchError, FetchProgress, FetchSettings, FetchedFrom, FileState, ModelCache, Presence,
};
use crate::weights::lock::{Checked, ModelLock};
use crate::weights::manifest::{ModelKind, ModelManifest, Source};

const EXAMPLES: &str = "\
Examples:
  longwick models list
  longwick models show gemma3-270m
  longwick models plan gpt-oss-120b --context 100000 --memory 80GiB
  longwick models fetch smollm2-135m
  longwick models fetch qwen3-4b hf:Qwen/Qwen3-0.6B@main
  longwick models fetch hf:owner/some-GGUF:model-Q4_K_M.gguf
  longwick models verify smollm2-135m

Models lie in ${LONGWICK_CACHE:-$HOME/.cache/longwick}/models, your own manifests in manifests/ beside it.
The Hugging Face cache is searched first. HF_TOKEN, HF_ENDPOINT, HF_HUB_CACHE, HF_HOME and HF_HUB_OFFLINE
work as for huggingface_hub; LONGWICK_OFFLINE=1 refuses every download; LONGWICK_PIP names the pip to use.";

/// List, show, plan, fetch and verify models.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelsArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ModelsCommand,
}

/// What to do with models.
#[derive(Debug, Clone, Subcommand)]
pub enum ModelsCommand {
    /// List the known models, and which are on this machine.
    #[command(after_help = "Example:\n  longwick models list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a model's sources, licence, context length, shapes and files.
    #[command(after_help = "Example:\n  longwick models show qwen3-4b")]
    Show {
        /// A name from `longwick models list`.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what memory a model needs at a context length, and how many such sequences fit.
    #[command(after_help = super::plan::EXAMPLES)]
    Plan(super::plan::PlanArgs),
    /// Fetch models; what is there and verified is left alone, what was broken off goes on.
    #[command(
        after_help = "Examples:\n  longwick models fetch smollm2-135m\n  longwick models fetch hf:Qwen/Qwen3-0.6B"
    )]
    Fetch {
        /// Names, or hf:owner/name[@revision][:file.gguf].
        #[arg(required = true)]
        models: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Read fetched models again and compare them with their lock files. Exit code 1: a file is gone or changed.
    #[command(after_help = "Example:\n  longwick models verify smollm2-135m gemma3-270m")]
    Verify {
        /// Names, or hf:owner/name[@revision][:file.gguf].
        #[arg(required = true)]
        models: Vec<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs `longwick models`.
///
/// # Errors
/// What [`FetchError`] says.
pub fn run(args: ModelsArgs) -> CliResult {
    let cache = ModelCache::new(FetchSettings::from_env())?;
    match args.command {
        ModelsCommand::List { json } => list(&cache, json),
        ModelsCommand::Show { name, json } => show(&cache, &name, json),
        ModelsCommand::Plan(args) => super::plan::run(&cache, &args),
        ModelsCommand::Fetch { models, json } => fetch(&cache, &models, json),
        ModelsCommand::Verify { models, json } => verify(&cache, &models, json),
    }
}

fn list(cache: &ModelCache, as_json: bool) -> CliResult {
    let mut rows = Vec::new();
    let mut outcome = Outcome::Finished;
    for (manifest, origin) in cache.manifests().iter() {
        // One damaged lock file does not hide the other models.
        let presence = cache.presence(&manifest.name).unwrap_or_else(|error| {
            eprintln!("{}: {error}", manifest.name);
            outcome = Outcome::FinishedWithFailures;
            None
        });
        rows.push((manifest, origin, presence));
    }
    if as_json {
        let models: Vec<_> =
            rows.iter().map(|(m, origin, presence)| manifest_json(m, *origin, presence.as_ref())).collect();
        out_line!("{}", serde_json::to_string_pretty(&json!({ "models": models }))?)?;
        return Ok(outcome);
    }
    out_line!(
        "{:<28} {:<11} {:<11} {:>8}  {:<10} {:<22} DESCRIPTION",
        "NAME",
        "FAMILY",
        "KIND",
        "CONTEXT",
        "LICENCE",
        "PRESENT"
    )?;
    for (manifest, origin, presence) in rows {
        let present =
            presence.map_or("-".to_string(), |p| format!("{} ({})", short_keeper(p.keeper), size(p.bytes)));
        let own = if origin.is_some() { " (your manifest)" } else { "" };
        out_line!(
            "{:<28} {:<11} {:<11} {:>8}  {:<10} {:<22} {}{own}",
            manifest.name,
            manifest.family,
            kind(manifest.kind),
            manifest.context_length,
            manifest.licence.name,
            present,
            manifest.description,
        )?;
    }
    Ok(outcome)
}

fn show(cache: &ModelCache, name: &str, as_json: bool) -> CliResult {
    let (manifest, origin) =
        cache.manifests().iter().find(|(manifest, _)| manifest.name == name).ok_or_else(|| {
            FetchError::UnknownModel { spec: name.to_string(), known: cache.manifests().names() }
        })?;
    let presence = cache.presence(name)?;
    if as_json {
        out_line!("{}", serde_json::to_string_pretty(&manifest_json(manifest, origin, presence.as_ref()))?)?;
        return Ok(Outcome::Finished);
    }
    out_line!("{}  {}", manifest.name, manifest.description)?;
    out_line!("  manifest   {}", origin.map_or("built in".to_string(), |path| path.display().to_string()))?;
    out_line!("  family     {} ({})", manifest.family, kind(manifest.kind))?;
    out_line!("  context    {} tokens", manifest.context_length)?;
    out_line!("  licence    {}", manifest.licence.name)?;
    if let Some(note) = &manifest.licence.note {
        out_line!("             {note}")?;
    }
    out_line!("  shapes     {}", shapes(manifest))?;
    if let Some(weights) = &manifest.weights {
        let stored = weights.exceptions.iter().map(|other| format!("{} {}", other.tensors, other.dtype));
        let stored: Vec<String> = std::iter::once(weights.dtype.clone()).chain(stored).collect();
        out_line!("  stored     {}", stored.join(", "))?;
    }
    for extension in &manifest.rope_extensions {
        out_line!(
            "  extension  {}: {} tokens, {}",
            extension.name,
            extension.context_length,
            extension.setting
        )?;
    }
    for file in &manifest.files {
        out_line!("  pinned     {} {} sha256 {}", file.path, size(file.bytes), file.sha256)?;
    }
    for source in &manifest.sources {
        out_line!("  source     {}", describe(source))?;
    }
    match presence {
        Some(presence) => out_line!(
            "  present    {} ({}, {})",
            presence.path.display(),
            presence.keeper,
            size(presence.bytes)
        ),
        None => out_line!("  present    no; fetch it with: longwick models fetch {name}"),
    }?;
    let folder = cache.settings().cache_root.join("models").join(name);
    for file in ModelLock::read(&folder)?.map(|lock| lock.files).unwrap_or_default() {
        out_line!(
            "  locked     {} {} sha256 {} ({})",
            file.path,
            size(file.bytes),
            file.sha256,
            checked(file.checked)
        )?;
    }
    Ok(Outcome::Finished)
}

fn fetch(cache: &ModelCache, models: &[String], as_json: bool) -> CliResult {
    let mut results = Vec::new();
    for model in models {
        if let Some(note) = cache.manifests().get(model).and_then(|manifest| manifest.licence.note.as_ref()) {
            eprintln!("{model}: {note}");
        }
        let fetched = cache.fetch(model, &mut TerminalProgress::new())?;
        let bytes: u64 = fetched.files.iter().map(|file| file.bytes).sum();
        if as_json {
            results.push(json!({
                "model": model, "path": fetched.path, "from": from(fetched.from), "bytes": bytes, "files": fetched.files,
            }));
            continue;
        }
        out_line!("{model}: {} ({}, {})", fetched.path.display(), from(fetched.from), size(bytes))?;
        for file in &fetched.files {
            out_line!("  {}  sha256 {} ({})", file.path, file.sha256, checked(file.checked))?;
        }
    }
    if as_json {
        out_line!("{}", serde_json::to_string_pretty(&json!({ "fetched": results }))?)?;
    }
    Ok(Outcome::Finished)
}

fn verify(cache: &ModelCache, models: &[String], as_json: bool) -> CliResult {
    let mut results = Vec::new();
    let mut all_right = true;
    for model in models {
        for check in cache.verify(model, &mut TerminalProgress::new())? {
            let (state, detail) = match &check.state {
                FileState::Right => ("right", String::new()),
                FileState::Missing => ("missing", String::new()),
                FileState::Changed { expected, actual } => {
                    ("changed", format!(": expected {expected}, got {actual}"))
                }
            };
            all_right &= check.state == FileState::Right;
            if as_json {
                results.push(json!({ "model": model, "path": check.path, "state": state, "detail": detail.trim_start_matches(": ") }));
            } else {
                out_line!("{model}: {} {state}{detail}", check.path)?;
            }
        }
    }
    if as_json {
        out_line!("{}", serde_json::to_string_pretty(&json!({ "files": results }))?)?;
    }
    Ok(if all_right { Outcome::Finished } else { Outcome::FinishedWithFailures })
}

fn manifest_json(
    manifest: &ModelManifest,
    origin: Option<&Path>,
    presence: Option<&Presence>,
) -> serde_json::Value {
    json!({
        "manifest": manifest,
        "origin": origin,
        "present": presence.map(|p| json!({ "path": p.path, "bytes": p.bytes, "keeper": p.keeper })),
    })
}

fn shapes(manifest: &ModelManifest) -> String {
    let s = &manifest.shapes;
    let fields = [
        ("layers", s.layers),
        ("hidden", s.hidden),
        ("heads", s.heads),
        ("kv heads", s.kv_heads),
        ("head dim", s.head_dim),
        ("vocab", s.vocab),
        ("sliding window", s.sliding_window),
        ("kv heads of full layers", s.full_kv_heads),
        ("head dim of full layers", s.full_head_dim),
        ("layers that share keys and values", s.kv_shared_layers),
        ("per-layer input", s.per_layer_input),
        ("layers to one of full attention", s.full_attention_interval),
        ("key heads of linear attention", s.linear_key_heads),
        ("value heads of linear attention", s.linear_value_heads),
        ("head dim of linear attention", s.linear_head_dim),
        ("feed-forward", s.intermediate),
        ("experts", s.experts),
        ("experts a token", s.experts_per_token),
        ("feed-forward of an expert", s.expert_intermediate),
    ];
    fields
        .iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {value}")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn describe(source: &Source) -> String {
    match source {
        Source::Hub(hub) => format!("hub {}@{}: {}", hub.repo, hub.revision, hub.files.join(", ")),
        Source::Pypi(pypi) => {
            let mut packages: Vec<&str> =
                pypi.files().flat_map(|(_, parts)| parts).map(|part| part.package.as_str()).collect();
            packages.dedup();
            let files: Vec<&str> = pypi.files().map(|(file, _)| file).collect();
            format!("PyPI {} {}: {}", packages.join(" + "), pypi.version, files.join(", "))
        }
        Source::Local(local) => format!("local {}", local.path.display()),
    }
}

fn kind(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Instruct => "instruct",
        ModelKind::Base => "base",
        ModelKind::Embedding => "embedding",
        ModelKind::Compression => "compression",
    }
}

fn from(from: FetchedFrom) -> &'static str {
    match from {
        FetchedFrom::AlreadyPresent => "already present and verified",
        FetchedFrom::HuggingfaceCache => "verified in the Hugging Face cache",
        FetchedFrom::Hub => "downloaded from the hub",
        FetchedFrom::Pypi => "downloaded from PyPI",
        FetchedFrom::Local => "local",
    }
}

fn checked(checked: Checked) -> &'static str {
    match checked {
        Checked::Manifest => "as pinned in the manifest",
        Checked::HubSha256 | Checked::HubGitId => "as published by the hub",
        Checked::FirstSeen => "nothing published to compare with",
    }
}

fn short_keeper(keeper: &str) -> &str {
    if keeper.starts_with("Hugging") { "hf cache" } else { keeper }
}

fn size(bytes: u64) -> String {
    indicatif::DecimalBytes(bytes).to_string()
}

/// A bar on a terminal; where there is none, notes alone.
struct TerminalProgress {
    bar: Option<ProgressBar>,
}

impl TerminalProgress {
    fn new() -> Self {
        Self { bar: None }
    }
}

impl FetchProgress for TerminalProgress {
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64) {
        if !std::io::stderr().is_terminal() {
            eprintln!("{what}");
            return;
        }
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg:40!} {wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec} {eta}",
            ),
            None => (ProgressBar::new_spinner(), "{spinner} {msg} {elapsed}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what.to_string());
        bar.set_position(done);
        // Resumed bytes are not this download's speed.
        bar.reset_eta();
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        self.bar = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }

    fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn note(&mut self, message: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{message}")),
            None => eprintln!("{message}"),
        }
    }
}
