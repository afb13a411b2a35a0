//! `longwick models plan`: what a model needs at a context length.
use std::num::NonZeroUsize;
use std::path::Path;

use clap::Args;

use super::model_args::{kv_dtype_parser, quantization_parser};
use super::quantities::{gib, parse_bytes, parse_tokens, thousands};
use super::{CliResult, Outcome, counted};
use crate::engine::{EngineOptions, Fit, GroupPlan, MemoryPlan, PlanRequest, StatePlan};
use crate::ops::KvDtype;
use crate::weights::Quantization;
use crate::weights::fetch::ModelCache;

pub(super) const EXAMPLES: &str = "\
Examples:
  longwick models plan qwen3-8b --context 32768
  longwick models plan gpt-oss-120b --context 100000 --memory 80GiB
  longwick models plan qwen3-8b --context 100k --rope-extension yarn --kv-dtype bf16 --memory 64GiB
  longwick models plan qwen3-30b-a3b-instruct-2507 --context 200k --quantize q4_k --memory 64GiB
  longwick models plan ./my-checkpoint --context 8192 --json

A name is planned from its manifest, and need not be on this machine; of a path the headers are read, and no weights.
Tables that stay in their mapped files are shown and not counted: the system keeps of them the pages in use.";

/// Arguments of `longwick models plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// A name of `longwick models list`, a path to a GGUF file or HF folder, or hf:owner/name.
    pub model: String,
    /// Tokens of one sequence, prompt and answer together, e.g. 100000 or 100k.
    #[arg(long, value_name = "TOKENS", value_parser = parse_tokens)]
    pub context: NonZeroUsize,
    /// Memory there is, e.g. 24GiB: says how many such sequences fit at once.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// Element type of cached keys and values.
    #[arg(long, value_name = "TYPE", default_value_t, value_parser = kv_dtype_parser(&KvDtype::ALL))]
    pub kv_dtype: KvDtype,
    /// Most tokens computed in one step.
    #[arg(long, value_name = "TOKENS", default_value = "512")]
    pub chunk: NonZeroUsize,
    /// Quantise float weights at load, as the commands that load a model do.
    #[arg(long, value_name = "FORMAT", value_parser = quantization_parser())]
    pub quantize: Option<Quantization>,
    /// A documented way past the model's context, by name.
    #[arg(long, value_name = "NAME")]
    pub rope_extension: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(cache: &ModelCache, args: &PlanArgs) -> CliResult {
    let options = EngineOptions {
        kv_dtype: args.kv_dtype,
        quantization: args.quantize,
        max_batch_tokens: args.chunk.get(),
        ..EngineOptions::default()
    };
    let request = PlanRequest {
        context: args.context.get(),
        memory: args.memory,
        rope_extension: args.rope_extension.clone(),
    };
    let plan = match cache.manifests().get(&args.model) {
        Some(manifest) => MemoryPlan::of_manifest(manifest, &options, &request)?,
        None => MemoryPlan::of_files(&cache.resolve(&args.model)?, &[], &options, &request)?,
    };
    if args.json {
        out_line!("{}", serde_json::to_string_pretty(&plan)?)?;
    } else {
        print(&plan)?;
    }
    Ok(Outcome::Finished)
}

fn print(plan: &MemoryPlan) -> std::io::Result<()> {
    let name = Path::new(&plan.model).file_name().map_or(plan.model.as_str().into(), |n| n.to_string_lossy());
    out_line!("{name}: one sequence of {} tokens", thousands(plan.context))?;
    match &plan.rope_extension {
        None => out_line!("  the model takes {}", thousands(plan.context_limit))?,
        Some(extension) => out_line!(
            "  the model takes {} by {}: {}",
            thousands(plan.context_limit),
            extension.name,
            extension.setting
        )?,
    }
    let weights = &plan.weights;
    let billions = weights.parameters as f64 / 1e9;
    row("weights", weights.packed, &format!("matrices, packed; {billions:.2} billion parameters in all"))?;
    if let Some(quantization) = &plan.quantization {
        out_line!("{:<27}  {quantization}", "")?;
    }
    row("", weights.vectors, "norms, biases and other vectors, f32")?;
    if weights.mapped > 0 {
        out_line!("{:<10}{:>15}  {}", "", "(mapped)", mapped(weights.mapped))?;
    }
    let alike = plan.groups.chunk_by(|one, next| one == next);
    for (index, groups) in alike.enumerate() {
        let bytes = groups.iter().map(|group| group.bytes).fold(0, usize::saturating_add);
        row(if index == 0 { "KV cache" } else { "" }, bytes, &describe_groups(groups))?;
    }
    if let Some(states) = &plan.states {
        row("states", states.bytes, &describe_states(states))?;
    }
    row("scratch", plan.scratch, &format!("a step of {} tokens, upper estimate", thousands(plan.chunk)))?;
    row("total", plan.total, &gib(plan.total as u64))?;
    if let Some(states) = plan.states.as_ref().filter(|states| states.snapshots > 0) {
        out_line!("{}", describe_snapshots(states))?;
    }
    match &plan.fit {
        Some(fit) => out_line!("{}", describe_fit(plan, fit)),
        None => Ok(()),
    }
}

fn row(what: &str, bytes: usize, remark: &str) -> std::io::Result<()> {
    out_line!("  {what:<10}{:>15}  {remark}", thousands(bytes))
}

fn mapped(bytes: usize) -> String {
    format!("{} bytes of tables stay in their file", thousands(bytes))
}

/// Groups that are alike.
fn describe_groups(groups: &[GroupPlan]) -> String {
    let Some(group) = groups.first() else { return String::new() };
    let sees = match group.window {
        None => "full".to_owned(),
        Some(window) => format!("window {window}"),
    };
    let each = if groups.len() == 1 { String::new() } else { format!("{} groups, each ", groups.len()) };
    format!(
        "{sees}: {each}{} of {} x {}, {} bytes a token, {}",
        counted(group.layers, "layer"),
        group.kv_heads,
        group.head_dim,
        thousands(group.bytes_per_token),
        counted(group.blocks, "block"),
    )
}

fn describe_states(states: &StatePlan) -> String {
    format!("{} recurrent layers, {} slots of {}", states.layers, states.slots, thousands(states.slot_bytes))
}

fn describe_snapshots(states: &StatePlan) -> String {
    format!(
        "  and where there is room {} for {} snapshots of states, one every {} tokens",
        gib(states.snapshot_bytes as u64),
        states.snapshots,
        thousands(states.snapshot_tokens)
    )
}

fn describe_fit(plan: &MemoryPlan, fit: &Fit) -> String {
    let (memory, context) = (gib(fit.memory), thousands(plan.context));
    match fit.sequences {
        0 => {
            let lacking = gib((plan.total as u64).saturating_sub(fit.memory));
            let instead = match fit.longest_context {
                0 => "nor does any shorter context".to_owned(),
                longest => format!("the longest context that does is {} tokens", thousands(longest)),
            };
            format!("  does not fit {memory}: {lacking} are lacking; {instead}")
        }
        1 => format!("  fits {memory}: 1 sequence of {context} tokens at once"),
        sequences => {
            format!("  fits {memory}: {} sequences of {context} tokens at once", thousands(sequences))
        }
    }
}
