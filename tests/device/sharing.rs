//! Attention reads what several sequences have in common once.

use longwick::ops::{DeviceChoice, KvDtype};
use longwick_kernels::emu::blocks_run;

use crate::support::{greedy_request, tokens};
use crate::{assets, options};

const SPAN: usize = 256;
/// Below the smallest vocabulary here.
const VOCAB: usize = 259;
const SEQUENCES: usize = 3;

/// Thread blocks that attention takes in a step that decodes a token of each prompt.
fn attention_blocks_of_a_step(prompts: &[Vec<u32>]) -> u64 {
    let options = options(DeviceChoice::Emu, KvDtype::F32, 512);
    let mut engine = assets::load(&assets::own_fixture("qwen3"), options);
    for prompt in prompts {
        engine.submit(greedy_request(prompt, 16)).unwrap();
    }
    while engine.has_work() {
        let (before, blocks_before) = (engine.stats(), blocks_run(c"paged_"));
        engine.step().unwrap();
        let after = engine.stats();
        let generated = after.generated_tokens - before.generated_tokens;
        if after.prefilled_tokens == before.prefilled_tokens && generated == prompts.len() as u64 {
            return blocks_run(c"paged_") - blocks_before;
        }
    }
    panic!("no step decoded all {} sequences", prompts.len());
}

/// Two spans of a common prefix and a third of its own, in place of three spans of its own, for each of three sequences.
#[test]
fn branches_that_decode_in_one_step_read_their_prefix_once() {
    let prefix = tokens(1, 2 * SPAN, VOCAB);
    let own = |seed, length| tokens(seed, length, VOCAB);
    let branches: Vec<Vec<u32>> =
        (2..).take(SEQUENCES).map(|seed| [&prefix[..], &own(seed, 5)].concat()).collect();
    let strangers: Vec<Vec<u32>> = (2..).take(SEQUENCES).map(|seed| own(seed, 2 * SPAN + 5)).collect();
    let together = attention_blocks_of_a_step(&branches);
    let apart = attention_blocks_of_a_step(&strangers);
    let (spans_together, spans_apart) = (2 + SEQUENCES as u64, 3 * SEQUENCES as u64);
    assert!(apart > 0);
    assert_eq!(
        together * spans_apart,
        apart * spans_together,
        "{together} blocks, {apart} without a common prefix"
    );
}
