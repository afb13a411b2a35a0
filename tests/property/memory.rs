//! What sliding layers hold at a long context.

use std::path::Path;

use longwick::kv::{KvCache, KvCacheGroup, KvPlan, LayerKv};
use longwick::ops::{Backend, KvDtype};

use crate::assets;
use crate::support::{greedy_request, load_with_blocks, options, plan, tokens};

const VOCAB: usize = 259;
const PROMPT: usize = 8_000;

/// Blocks that may be referenced between two steps, when `tokens` are computed: everything in full groups, a
/// window's worth and one block for its uneven start in sliding ones.
fn most_between_steps(plan: &KvPlan, tokens: usize) -> usize {
    let block = plan.block_size;
    let one = |window: Option<u32>| match window {
        None => tokens.div_ceil(block),
        Some(window) => tokens.div_ceil(block).min((window as usize).div_ceil(block) + 1),
    };
    plan.groups.iter().map(|group| one(group.window)).sum()
}

/// Blocks needed while a step runs: the window and the chunk, and a block for the uneven start.
fn most_within_a_step(plan: &KvPlan, tokens: usize, chunk: usize) -> usize {
    let block = plan.block_size;
    let one = |window: Option<u32>| match window {
        None => tokens.div_ceil(block),
        Some(window) => tokens.div_ceil(block).min((window as usize + chunk).div_ceil(block) + 1),
    };
    plan.groups.iter().map(|group| one(group.window)).sum()
}

fn check(path: &Path, chunk: usize) {
    let options = options(KvDtype::Bf16, 2, chunk);
    let mut engine = load_with_blocks(path, options.clone(), |plan| {
        assert!(plan.groups.iter().any(|group| group.window.is_some()));
        // No block more than a step needs: with one more held anywhere, the request could not run.
        most_within_a_step(plan, PROMPT + 4, chunk)
    });
    let plan = plan(&engine, &options);
    engine.submit(greedy_request(&tokens(71, PROMPT, VOCAB), 4)).unwrap();
    let mut most = 0;
    while engine.has_work() {
        let completions = engine.step().unwrap();
        let stats = engine.stats();
        let computed = (stats.prefilled_tokens + stats.generated_tokens) as usize;
        let (referenced, bound) = (engine.kv_usage().referenced, most_between_steps(&plan, computed));
        assert!(referenced <= bound, "{referenced} blocks after {computed} tokens, {bound} at most");
        most = most.max(referenced);
        assert!(completions.len() <= 1);
    }
    assert!(most >= PROMPT / 16, "the full layers hold the whole prompt: {most}");
    assert_eq!(engine.stats().preemptions, 0);
    assert_eq!(engine.kv_usage().referenced, 0);
}

#[test]
fn sliding_layers_hold_a_window_and_a_chunk() {
    for name in ["gemma3", "gpt_oss", "gemma4", "gemma4_keys_are_values"] {
        for chunk in [64, 500] {
            check(&assets::own_fixture(name), chunk);
        }
    }
}

/// Gemma 4's last layers own no blocks: the pool holds what the layers before them need.
#[test]
fn layers_that_share_own_nothing() {
    let path = assets::own_fixture("gemma4");
    let options = options(KvDtype::F32, 1, 64);
    let engine = assets::load(&path, options.clone());
    let plan = plan(&engine, &options);
    let layers: Vec<usize> = plan.groups.iter().flat_map(|group| group.layers.clone()).collect();
    assert_eq!((engine.config().num_layers(), layers.len()), (7, 4));
    for (layer, owner) in [(4, 3), (5, 3), (6, 1)] {
        assert_eq!(plan.layers[layer], plan.layers[owner], "layer {layer}");
        assert!(!layers.contains(&layer));
    }
}

/// Layers as the published models have them, and what is left of their keys' width: blocks are counted, not filled.
fn published_layouts() -> Vec<(&'static str, Vec<LayerKv>)> {
    const FULL: LayerKv = LayerKv::Full { kv_heads: 1, head_dim: 16 };
    let sliding = |window| LayerKv::Sliding { window, kv_heads: 1, head_dim: 8 };
    let every = |layers: usize, period: usize, window: u32| -> Vec<LayerKv> {
        (1..=layers).map(|layer| if layer.is_multiple_of(period) { FULL } else { sliding(window) }).collect()
    };
    let mut e2b = every(15, 5, 512);
    // The last twenty of its thirty-five layers read what the last layers of their kinds before them wrote.
    e2b.extend(
        (16..=35).map(|layer: usize| LayerKv::SharedWith(if layer.is_multiple_of(5) { 14 } else { 13 })),
    );
    vec![
        ("gemma-3-4b", every(34, 6, 1024)),
        ("gemma-3-27b", every(62, 6, 1024)),
        ("gpt-oss-20b", every(24, 2, 128)),
        ("gpt-oss-120b", every(36, 2, 128)),
        ("gemma-4-e2b", e2b),
        ("gemma-4-31b", every(60, 6, 1024)),
    ]
}

/// Blocks in which a token after `tokens` tokens sees anything: counted token by token, not as the cache does it.
fn visible_blocks(group: &KvCacheGroup, tokens: usize, block: usize) -> usize {
    let first = group.window.map_or(0, |window| (tokens + 1).saturating_sub(window as usize));
    let mut blocks = 0;
    let mut position = first;
    while position < tokens {
        blocks += 1;
        position = (position / block + 1) * block;
    }
    blocks
}

/// 100,000 tokens in chunks, through the cache alone, by the pool's counters.
fn check_long_context(name: &str, layers: &[LayerKv], chunk: usize, keeps_prefixes: bool) {
    const CONTEXT: usize = 100_000;
    let plan = KvPlan::new(layers, 16, KvDtype::Bf16).unwrap();
    assert!(plan.groups.iter().any(|group| group.window.is_some()), "{name}");
    // Not one block more than the largest step needs.
    let total = most_within_a_step(&plan, CONTEXT, chunk);
    let mut cache = KvCache::new(&Backend::cpu(None).unwrap(), plan.clone(), total, keeps_prefixes).unwrap();
    let tokens = tokens(72, CONTEXT, VOCAB);
    let mut sequence = cache.attach(&tokens);
    let mut end = 0;
    while end < CONTEXT {
        end = (end + chunk).min(CONTEXT);
        cache
            .prepare_append(&mut sequence, end)
            .unwrap_or_else(|error| panic!("{name}, {end} tokens: {error}"));
        let during = cache.usage().referenced;
        assert!(
            during <= most_within_a_step(&plan, end, chunk),
            "{name}, {end} tokens: {during} blocks in a step"
        );
        cache.commit(&mut sequence, &tokens, end);
        let usage = cache.usage();
        let expected: usize =
            plan.groups.iter().map(|group| visible_blocks(group, end, plan.block_size)).sum();
        assert_eq!(usage.referenced, expected, "{name}, {end} tokens");
        assert_eq!(usage.referenced + usage.evictable + usage.free, total, "{name}, {end} tokens");
    }
    for (group, table) in plan.groups.iter().zip(sequence.tables()) {
        if let Some(window) = group.window {
            let held = table.blocks().len() * plan.block_size;
            assert!(
                held < window as usize + 2 * plan.block_size,
                "{name}: {held} tokens of a window of {window}"
            );
        }
    }
    println!("{name}, chunks of {chunk}: {} blocks referenced of {total}", cache.usage().referenced);
    cache.free(sequence);
    assert_eq!(cache.usage().referenced, 0, "{name}");
}

#[test]
fn a_hundred_thousand_tokens_hold_a_window_and_a_chunk() {
    for (name, layers) in published_layouts() {
        for (chunk, keeps_prefixes) in [(512, true), (2_048, false), (1_000, true)] {
            check_long_context(name, &layers, chunk, keeps_prefixes);
        }
    }
}
