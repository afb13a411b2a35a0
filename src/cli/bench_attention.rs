//! `longwick bench attention`: what the device kernels must move and compute, and how long that takes at best.

use std::path::PathBuf;

use serde::Serialize;

use super::columns::align;
use super::model_args::kv_dtype_parser;
use super::{CliError, CliResult, Outcome};
use crate::model::ModelConfig;
use crate::ops::KvDtype;
use crate::ops::roofline::{AttentionWork, Bound, Card, Cost, gated, rms_norm_with_residual};
use crate::weights::fetch::{FetchSettings, ModelCache};

/// Models of the list where none is named.
const MODELS: &str = "qwen3-8b,qwen3-30b-a3b,qwen3.5-9b,gemma3-27b-it,gemma4-e4b-it,gpt-oss-20b,gpt-oss-120b";

/// Arguments of `longwick bench attention`.
#[derive(Debug, clap::Args)]
pub(super) struct AttentionArgs {
    /// Print the floors of the kernels and measure nothing
    #[arg(long)]
    model_only: bool,
    /// Print rows that were measured on a GPU (scripts/device_check.sh) beside their floors
    #[arg(long, value_name = "FILE", value_delimiter = ',',
        conflicts_with_all = ["model_only", "models", "contexts", "cache", "chunk", "branches"])]
    timings: Vec<PathBuf>,
    /// Models by the names of `longwick models list`
    #[arg(long, value_delimiter = ',', default_value = MODELS)]
    models: Vec<String>,
    /// Context lengths in tokens
    #[arg(long, value_delimiter = ',', default_value = "100k,220k", value_parser = context)]
    contexts: Vec<usize>,
    /// The card whose peaks count
    #[arg(long, default_value = "rtx-4090", value_parser = card)]
    card: &'static Card,
    /// Element type of cached keys and values
    #[arg(long, value_name = "TYPE", default_value = "bf16", value_parser = kv_dtype_parser(&[KvDtype::Bf16, KvDtype::Fp8]))]
    cache: KvDtype,
    /// Tokens a prefill step
    #[arg(long, default_value = "2048", value_parser = clap::value_parser!(u32).range(1..))]
    chunk: u32,
    /// Branches of one prefix that decode together
    #[arg(long, default_value = "8", value_parser = clap::value_parser!(u32).range(1..))]
    branches: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A context length. Operations grow with its square, and are counted in 64 bits.
fn context(text: &str) -> Result<usize, String> {
    // Of the largest models, 64 bits count twice as many tokens' operations.
    const MOST: usize = 2_000_000;
    let tokens = super::quantities::parse_tokens(text)?.get();
    if tokens <= MOST { Ok(tokens) } else { Err(format!("{tokens} tokens are more than {MOST}")) }
}

/// A card by its name.
pub(super) fn card(name: &str) -> Result<&'static Card, String> {
    let names = Card::ALL.map(|card| card.name).join(", ");
    Card::named(name).ok_or_else(|| format!("it is one of {names}"))
}

/// One kernel's work over all layers of a model.
#[derive(Debug, Serialize)]
struct Row {
    model: String,
    context: usize,
    /// Longer than the model was made for.
    past_limit: bool,
    kernel: &'static str,
    phase: &'static str,
    layers: u64,
    #[serde(flatten)]
    cost: Cost,
    floor_seconds: f64,
    bound: Bound,
}

/// Runs the command.
///
/// # Errors
/// For a model that is not in the list, a file of timings that cannot be read, and where a measurement is asked for.
pub(super) fn run(args: &AttentionArgs) -> CliResult {
    if !args.timings.is_empty() {
        super::bench_timings::print(&args.timings, args.card, args.json)?;
        return Ok(Outcome::Finished);
    }
    if !args.model_only {
        return Err("kernels are timed on a GPU, by scripts/device_check.sh; --model-only prints what they must move and \
                    compute, and the least time that takes"
            .into());
    }
    let cache = ModelCache::new(FetchSettings::from_env())?;
    let (mut rows, mut recurrent) = (Vec::new(), Vec::new());
    for name in &args.models {
        let config = config(&cache, name)?;
        let layers =
            (0..config.num_layers()).filter(|&layer| config.recurrent_layer(layer).is_some()).count();
        if layers > 0 {
            recurrent.push((name.as_str(), layers));
        }
        for &context in &args.contexts {
            rows.extend(model_rows(args, name, &config, context));
        }
    }
    match args.json {
        true => {
            let report = serde_json::json!({ "card": args.card, "cache": args.cache, "chunk": args.chunk,
                "branches": args.branches, "rows": rows });
            out_line!("{report:#}")?;
        }
        false => print(args, &rows, &recurrent)?,
    }
    Ok(Outcome::Finished)
}

fn config(cache: &ModelCache, name: &str) -> Result<ModelConfig, CliError> {
    let manifest = cache.manifests().get(name);
    let manifest =
        manifest.ok_or_else(|| format!("--models {name}: no such model in `longwick models list`"))?;
    Ok(ModelConfig::from_manifest(manifest)?)
}

/// What the layers of one kind of attention share: their number, and one's work.
pub(super) type Kind = (u64, AttentionWork);

/// The kinds of attention among the first `layers` layers.
pub(super) fn kinds(config: &ModelConfig, layers: usize, cache: KvDtype) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    for layer in (0..layers).filter(|&layer| config.recurrent_layer(layer).is_none()) {
        let heads = config.kv_heads(layer);
        let work = AttentionWork {
            q_heads: config.num_heads,
            kv_heads: heads.kv_heads,
            head_dim: heads.head_dim,
            window: config.layer_windows[layer].map(|window| window as usize),
            activation_bytes: 2,
            cache_bytes: cache.element_bytes(),
            scale_bytes: cache.scale_bytes(),
        };
        match kinds.iter_mut().find(|(_, kind)| *kind == work) {
            Some((count, _)) => *count += 1,
            None => kinds.push((1, work)),
        }
    }
    kinds
}

/// Layers of these kinds, and what they cost together.
pub(super) fn total(kinds: &[Kind], cost: impl Fn(&AttentionWork) -> Cost) -> (u64, Cost) {
    let layers = kinds.iter().map(|(count, _)| count).sum();
    (layers, kinds.iter().map(|(count, work)| cost(work).repeated(*count)).sum())
}

/// Elements of a head that rotate; the rest stays where it is.
pub(super) fn rotated(config: &ModelConfig, work: &AttentionWork) -> usize {
    match work.window {
        None => config.rope.rotary_dim,
        Some(_) => config.rope_sliding.rotary_dim,
    }
}

fn model_rows(args: &AttentionArgs, name: &str, config: &ModelConfig, context: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |kernel, phase, (layers, cost): (u64, Cost)| {
        if layers > 0 {
            let (floor_seconds, bound) = cost.floor(args.card);
            let past_limit = context > config.context_length;
            let model = name.to_owned();
            rows.push(Row { model, context, past_limit, kernel, phase, layers, cost, floor_seconds, bound });
        }
    };
    let rotated = |work: &AttentionWork| rotated(config, work);
    let all = kinds(config, config.num_layers(), args.cache);
    let own = kinds(config, config.num_own_kv_layers(), args.cache);
    let (full, sliding): (Vec<Kind>, Vec<Kind>) = all.iter().partition(|(_, work)| work.window.is_none());
    for (kernel, kinds) in [("full attention", full), ("sliding attention", sliding)] {
        add(kernel, "prefill", total(&kinds, |work| work.prefill(context, args.chunk as usize)));
        add(kernel, "decode", total(&kinds, |work| work.decode(context, 1)));
        add(kernel, "branches", total(&kinds, |work| work.decode(context, args.branches as usize)));
    }
    for (phase, tokens) in [("prefill", context), ("decode", 1)] {
        add("kv_write", phase, total(&own, |work| work.kv_write(tokens)));
        add("rope", phase, total(&all, |work| work.rope(tokens, rotated(work))));
        let layers = config.num_layers() as u64;
        let norm = rms_norm_with_residual(tokens, config.hidden_size, 2);
        add("rms_norm", phase, (layers, norm.repeated(2 * layers)));
        add("gated", phase, feed_forward(config, tokens));
    }
    rows
}

/// The gated activations of all layers: of a layer with experts, those that a token chooses.
fn feed_forward(config: &ModelConfig, tokens: usize) -> (u64, Cost) {
    let width = |layer: usize| match config.experts.as_ref().filter(|experts| experts.has_layer(layer)) {
        Some(experts) => experts.num_experts_per_token * experts.intermediate_size,
        None => config.layer_intermediate_size(layer),
    };
    let layers = config.num_layers();
    (layers as u64, (0..layers).map(|layer| gated(tokens, width(layer), 2)).sum())
}

fn print(args: &AttentionArgs, rows: &[Row], recurrent: &[(&str, usize)]) -> std::io::Result<()> {
    let card = args.card;
    out_line!(
        "{}: {} GB/s, {:.1} TFLOPS dense bf16 with f32 sums. Least work, each byte moved once, over all layers; prefill of the \
         whole context in steps of {} tokens; decode of one token; branches: one token each of {} that share their context.",
        card.name,
        card.gigabytes_per_second,
        card.tensor_flops_per_second() / 1e12,
        args.chunk,
        args.branches
    )?;
    let header = ["model", "context", "kernel", "phase", "layers", "GB", "GFLOP", "floor ms", "bound by"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for row in rows {
        lines.push(vec![
            row.model.clone(),
            format!("{}{}", row.context, if row.past_limit { "*" } else { "" }),
            row.kernel.to_owned(),
            row.phase.to_owned(),
            row.layers.to_string(),
            figure(row.cost.bytes as f64 / 1e9),
            figure((row.cost.tensor_flops + row.cost.vector_flops) as f64 / 1e9),
            figure(row.floor_seconds * 1e3),
            row.bound.name().to_owned(),
        ]);
    }
    out_line!("{}", align(&lines, 4))?;
    for (model, layers) in recurrent {
        out_line!("{model}: {layers} recurrent layers have no kernel yet; their own work is not counted")?;
    }
    if rows.iter().any(|row| row.past_limit) {
        out_line!("* longer than the model's context")?;
    }
    Ok(())
}

/// Three significant digits or so, never in powers of ten.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_context_is_counted_in_full() {
        let cache = ModelCache::new(FetchSettings::from_env()).expect("manifests");
        assert!(context("2001k").is_err());
        let (half, whole) = (context("1000k").expect("half"), context("2000k").expect("the longest"));
        for name in MODELS.split(',').chain(["qwen3-235b-a22b", "qwen3-32b", "gemma4-31b-it"]) {
            let config = config(&cache, name).expect(name);
            let flops = |tokens| {
                let kinds = kinds(&config, config.num_layers(), KvDtype::Bf16);
                total(&kinds, |work| work.prefill(tokens, 2048)).1.tensor_flops as f64
            };
            // With the context grows what sliding layers do, with its square what the others do.
            let times = flops(whole) / flops(half);
            assert!((3.5..4.1).contains(&times), "{name}: {times} times the operations");
        }
    }
}
