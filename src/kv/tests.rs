//! The cache under random work: every block is in one state, references equal owners, hits give the right blocks.

use proptest::prelude::*;

use super::{BlockTable, KvCache, KvError, KvPlan, LayerKv, SequenceCache};
use crate::ops::{Backend, KvDtype};

const BLOCK: usize = 16;

fn plan(layers: &[LayerKv]) -> KvPlan {
    KvPlan::new(layers, BLOCK, KvDtype::F32).unwrap()
}

fn hybrid() -> KvPlan {
    let full = LayerKv::Full { kv_heads: 1, head_dim: 16 };
    let sliding = LayerKv::Sliding { window: 40, kv_heads: 1, head_dim: 16 };
    plan(&[sliding, sliding, full, sliding, sliding, full])
}

fn cache(blocks: usize) -> KvCache {
    KvCache::new(&Backend::cpu(None).unwrap(), hybrid(), blocks, true).unwrap()
}

fn tokens(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i / 20 * seed % 7 + i % 3).collect()
}

/// Appends `chunk` tokens at a time until `end`.
fn fill(cache: &mut KvCache, sequence: &mut SequenceCache, tokens: &[u32], end: usize, chunk: usize) {
    while sequence.num_tokens() < end {
        let next = (sequence.num_tokens() + chunk).min(end);
        cache.prepare_append(sequence, next).unwrap();
        cache.commit(sequence, tokens, next);
    }
}

#[test]
fn layers_of_one_kind_share_pages_of_one_size() {
    let plan = hybrid();
    // Four sliding layers and two full ones make pages of two layers: two sliding groups, one full.
    let windows: Vec<_> = plan.groups.iter().map(|group| (group.window, group.layers.clone())).collect();
    assert_eq!(windows, [(Some(40), vec![0, 1]), (Some(40), vec![3, 4]), (None, vec![2, 5])]);
    assert_eq!(plan.page_bytes, 2 * 2 * BLOCK * 16 * 4);
    assert_eq!(plan.bytes_per_token(), (2 * 2 * 16 * 4, 3 * 2 * 2 * 16 * 4));
}

/// Two sliding layers of one key head and 32 elements weigh as much as one full layer of 64.
#[test]
fn pages_fit_layers_of_other_head_sizes() {
    let full = LayerKv::Full { kv_heads: 1, head_dim: 64 };
    let sliding = LayerKv::Sliding { window: 24, kv_heads: 1, head_dim: 32 };
    let plan = plan(&[sliding, sliding, full, sliding, sliding, full]);
    let groups: Vec<_> = plan.groups.iter().map(|group| (group.window, group.layers.clone())).collect();
    assert_eq!(groups, [(Some(24), vec![0, 1, 3, 4]), (None, vec![2, 5])]);
    for group in &plan.groups {
        assert_eq!(group.layout.page_bytes(), plan.page_bytes);
    }
}

/// The published shapes: layers with a cache of their own, and the room that pages may leave empty.
#[test]
fn no_kind_of_layer_leaves_more_than_a_tenth_of_its_pages_empty() {
    let every = |layers: usize, period: usize, sliding: LayerKv, full: LayerKv| -> Vec<LayerKv> {
        (1..=layers).map(|layer| if layer.is_multiple_of(period) { full } else { sliding }).collect()
    };
    let sliding = |kv_heads| LayerKv::Sliding { window: 512, kv_heads, head_dim: 256 };
    let full = |kv_heads, head_dim| LayerKv::Full { kv_heads, head_dim };
    let e2b = every(15, 5, sliding(1), full(1, 512));
    let e4b = every(24, 6, sliding(2), full(2, 512));
    let gemma4_31b = every(60, 6, sliding(16), full(4, 512));
    let gemma3_27b = every(62, 6, sliding(16), full(16, 256));
    let qwen3 = vec![full(8, 128); 36];
    for (layers, groups) in [(e2b, 3), (e4b, 7), (gemma4_31b, 11), (gemma3_27b, 6), (qwen3, 1)] {
        let plan = KvPlan::new(&layers, 16, KvDtype::Bf16).unwrap();
        assert_eq!(plan.groups.len(), groups, "{layers:?}");
        for window in [Some(512), None] {
            let of_kind = plan.groups.iter().filter(|group| group.window == window);
            let (mut room, mut filled) = (0, 0);
            for group in of_kind {
                assert!(group.layout.page_bytes() <= plan.page_bytes);
                assert!(group.layers.len() <= group.layout.layers_per_page);
                room += plan.page_bytes;
                filled += group.layout.page_bytes() / group.layout.layers_per_page * group.layers.len();
            }
            assert!((room - filled) * 10 <= filled, "{window:?}: {filled} of {room} bytes");
        }
    }
}

#[test]
fn a_layer_that_shares_has_its_owners_place_and_nothing_else() {
    let full = LayerKv::Full { kv_heads: 1, head_dim: 16 };
    let sliding = LayerKv::Sliding { window: 40, kv_heads: 1, head_dim: 16 };
    let shared = plan(&[sliding, full, LayerKv::SharedWith(0), LayerKv::SharedWith(1)]);
    let own = plan(&[sliding, full]);
    assert_eq!((shared.groups.len(), shared.page_bytes), (own.groups.len(), own.page_bytes));
    assert_eq!(shared.layers[2], shared.layers[0]);
    assert_eq!(shared.layers[3], shared.layers[1]);
    let refused = [
        vec![LayerKv::SharedWith(0), full],
        vec![full, LayerKv::SharedWith(1)],
        vec![full, LayerKv::SharedWith(0), LayerKv::SharedWith(1)],
        vec![full, LayerKv::SharedWith(9)],
        vec![LayerKv::SharedWith(0)],
    ];
    for layers in refused {
        let refused = KvPlan::new(&layers, BLOCK, KvDtype::F32);
        assert!(matches!(refused, Err(KvError::Setting { setting: "layers", .. })), "{layers:?}");
    }
}

#[test]
fn a_block_size_that_is_no_multiple_of_16_is_refused() {
    let full = LayerKv::Full { kv_heads: 1, head_dim: 16 };
    for block_size in [0, 8, 24] {
        let refused = KvPlan::new(&[full], block_size, KvDtype::F32);
        assert!(matches!(refused, Err(KvError::Setting { setting: "block_size", .. })));
    }
}

#[test]
fn a_sliding_table_holds_the_window_and_no_more() {
    let mut cache = cache(200);
    let tokens = tokens(3, 600);
    let mut sequence = cache.attach(&tokens);
    fill(&mut cache, &mut sequence, &tokens, 600, 50);
    let held: Vec<usize> = sequence.tables().iter().map(|table| table.blocks().len()).collect();
    // A query at 600 sees positions above 560, and 560 is the last of block 35's first tokens: blocks 35 to 37.
    assert_eq!(held, [3, 3, 38]);
    let usage = cache.usage();
    assert_eq!(usage.referenced, 44);
    assert_eq!(usage.referenced + usage.evictable + usage.free, 200);
    cache.free(sequence);
    assert_eq!(cache.usage().referenced, 0);
}

#[test]
fn a_prefix_hit_stops_before_the_last_token() {
    let mut cache = cache(200);
    let tokens = tokens(5, 64);
    let mut first = cache.attach(&tokens);
    fill(&mut cache, &mut first, &tokens, 64, 64);
    assert_eq!(cache.cached_tokens(&tokens), 48);
    assert_eq!(cache.cached_tokens(&tokens[..49]), 48);
    assert_eq!(cache.cached_tokens(&tokens[..48]), 32);
    let second = cache.attach(&tokens);
    assert_eq!(second.num_tokens(), 48);
    assert_eq!(second.tables()[2].blocks(), &first.tables()[2].blocks()[..3]);
    cache.free(first);
    cache.free(second);
}

#[test]
fn a_hit_needs_the_window_of_sliding_groups() {
    // Room for one long sequence: the sliding blocks of its middle are evicted first.
    let mut cache = cache(60);
    let long = tokens(3, 400);
    let mut sequence = cache.attach(&long);
    fill(&mut cache, &mut sequence, &long, 400, 16);
    cache.free(sequence);
    let other = tokens(4, 320);
    let mut sequence = cache.attach(&other);
    assert_eq!(sequence.num_tokens(), 0);
    fill(&mut cache, &mut sequence, &other, 320, 16);
    cache.free(sequence);
    let hit = cache.attach(&long);
    let position = hit.num_tokens();
    for (group, table) in cache.plan().groups.clone().iter().zip(hit.tables()) {
        assert_eq!(table.first_block(), group.first_visible_block(position).min(position / BLOCK));
        assert_eq!(table.end_block(), position / BLOCK);
    }
    cache.free(hit);
}

#[test]
fn the_last_token_s_window_survives_a_boundary_mark() {
    let mut cache = cache(64);
    let base = tokens(3, 320);
    let mut sequence = cache.attach(&base);
    fill(&mut cache, &mut sequence, &base, 160, 16);
    cache.mark_boundary(&sequence, 160);
    fill(&mut cache, &mut sequence, &base, 320, 16);
    cache.free(sequence);
    // Take what is free and some of what is not: unmarked sliding blocks go, the marked window stays.
    let other = tokens(6, 96);
    let mut sequence = cache.attach(&other);
    fill(&mut cache, &mut sequence, &other, 96, 16);
    let mut branch = base[..160].to_vec();
    branch.extend([90, 91, 92]);
    assert_eq!(cache.cached_tokens(&branch), 160);
    cache.free(sequence);
}

#[test]
fn a_fork_copies_only_the_block_it_writes() {
    let mut cache = cache(100);
    let base = tokens(3, 40);
    let mut parent = cache.attach(&base);
    fill(&mut cache, &mut parent, &base, 40, 40);
    let mut fork = cache.fork(&parent);
    let before = cache.usage().referenced;
    let mut longer = base.clone();
    longer.push(99);
    cache.prepare_append(&mut fork, 41).unwrap();
    cache.commit(&mut fork, &longer, 41);
    assert_eq!(cache.usage().referenced, before + 3);
    for (ours, theirs) in fork.tables().iter().zip(parent.tables()) {
        assert_eq!(ours.blocks()[..2], theirs.blocks()[..2]);
        assert_ne!(ours.get(2), theirs.get(2));
    }
    // The parent is now the only owner of its last block, and writes it in place.
    assert_eq!(cache.blocks_to_append(&parent, 41), 0);
    cache.free(fork);
    cache.free(parent);
}

#[test]
fn out_of_blocks_changes_nothing() {
    let mut cache = cache(6);
    let base = tokens(3, 64);
    let mut sequence = cache.attach(&base);
    fill(&mut cache, &mut sequence, &base, 32, 32);
    let before = cache.usage();
    let refused = cache.prepare_append(&mut sequence, 64);
    assert!(matches!(refused, Err(KvError::OutOfBlocks { needed: 6, available: 0, total: 6 })));
    assert_eq!(cache.usage(), before);
    cache.free(sequence);
}

#[derive(Debug, Clone)]
enum Step {
    Start { seed: u32, length: usize },
    Append { which: usize, count: usize },
    Fork { which: usize },
    Free { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u32..5, 20usize..200).prop_map(|(seed, length)| Step::Start { seed, length }),
        (0usize..8, 1usize..60).prop_map(|(which, count)| Step::Append { which, count }),
        (0usize..8).prop_map(|which| Step::Fork { which }),
        (0usize..8).prop_map(|which| Step::Free { which }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn blocks_are_conserved_and_references_equal_owners(steps in prop::collection::vec(step(), 1..60)) {
        let mut cache = cache(40);
        let mut live: Vec<(SequenceCache, Vec<u32>)> = Vec::new();
        for step in steps {
            match step {
                Step::Start { seed, length } if live.len() < 8 => {
                    let tokens = tokens(seed, length);
                    live.push((cache.attach(&tokens), tokens));
                }
                Step::Append { which, count } if which < live.len() => {
                    let (sequence, tokens) = &mut live[which];
                    let end = (sequence.num_tokens() + count).min(tokens.len());
                    if cache.prepare_append(sequence, end).is_ok() {
                        cache.commit(sequence, tokens, end);
                    }
                }
                Step::Fork { which } if which < live.len() && live.len() < 8 => {
                    let fork = cache.fork(&live[which].0);
                    let mut tokens = live[which].1.clone();
                    let from = fork.num_tokens().min(tokens.len());
                    tokens[from..].iter_mut().for_each(|token| *token += 50);
                    live.push((fork, tokens));
                }
                Step::Free { which } if which < live.len() => {
                    let (sequence, _) = live.swap_remove(which);
                    cache.free(sequence);
                }
                _ => {}
            }
            let mut owners = [0u32; 40];
            for block in live.iter().flat_map(|(sequence, _)| sequence.tables()).flat_map(BlockTable::blocks) {
                owners[*block as usize] += 1;
            }
            for (block, &owners) in owners.iter().enumerate() {
                prop_assert_eq!(cache.pool.references(block as u32), owners);
            }
            let usage = cache.usage();
            prop_assert_eq!(usage.referenced, owners.iter().filter(|&&owners| owners > 0).count());
            prop_assert_eq!(usage.referenced + usage.evictable + usage.free, 40);
        }
        for (sequence, _) in live {
            cache.free(sequence);
        }
        prop_assert_eq!(cache.usage().referenced, 0);
    }
}
