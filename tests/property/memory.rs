//! What sliding layers hold at a long context.

use std::path::Path;

use longwick::kv::KvPlan;
use longwick::ops::KvDtype;

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
    for name in ["gemma3", "gemma4", "gemma4_keys_are_values"] {
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
