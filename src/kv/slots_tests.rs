//! State slots under random work: every slot is in one state, references equal owners, no shared state is written, and a
//! sequence always finds the state of its own tokens.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use proptest::prelude::*;

use super::{KvCache, KvError, KvPlan, LayerKv, SequenceCache};
use crate::ops::{Backend, KvDtype, RecurrentShape, STATE_CHUNK};

const FULL: LayerKv = LayerKv::Full { kv_heads: 1, head_dim: 16 };
const SHAPE: RecurrentShape = RecurrentShape {
    key_heads: 1,
    value_heads: 1,
    key_dim: 8,
    value_dim: 8,
    conv_kernel: 4,
    value_heads_in_turn: false,
};

fn plan(block_size: usize) -> KvPlan {
    let recurrent = LayerKv::Recurrent(SHAPE);
    KvPlan::new(&[recurrent, recurrent, FULL, recurrent], block_size, KvDtype::F32).unwrap()
}

fn cache(blocks: usize, slots: usize, interval: usize) -> KvCache {
    let cache = KvCache::new(&Backend::cpu(None).unwrap(), plan(16), blocks, true).unwrap();
    cache.with_slots(slots, interval).unwrap()
}

fn tokens(seed: u32, length: usize) -> Vec<u32> {
    (0..length as u32).map(|i| i / 40 * seed % 7 + i % 3).collect()
}

/// Stands for what the model computes: a state is known by the tokens it comes from.
fn digest(tokens: &[u32]) -> [u8; 8] {
    let mut hasher = DefaultHasher::new();
    tokens.hash(&mut hasher);
    hasher.finish().to_le_bytes()
}

fn read(cache: &mut KvCache, slot: u32) -> [u8; 8] {
    let (_, arena) = cache.arena_mut();
    arena.slot(slot).unwrap()[..8].try_into().unwrap()
}

fn write(cache: &mut KvCache, slot: u32, value: [u8; 8]) {
    let (_, arena) = cache.arena_mut();
    arena.slot_mut(slot).unwrap()[..8].copy_from_slice(&value);
}

/// One step of a model that writes digests, and checks those it reads. `false` where there is no room.
fn step(
    cache: &mut KvCache,
    sequence: &mut SequenceCache,
    tokens: &[u32],
    end: usize,
    branch_points: &[usize],
) -> bool {
    match cache.prepare_append(sequence, end) {
        Ok(()) => {}
        Err(KvError::OutOfSlots { needed, available, .. }) => {
            assert!(needed > available);
            return false;
        }
        Err(KvError::OutOfBlocks { .. }) => return false,
        Err(error) => panic!("{error}"),
    }
    cache.plan_snapshots(sequence, end, branch_points.iter().copied());
    let start = sequence.num_tokens();
    let slots = cache.state_slots(sequence).unwrap();
    let done = start / STATE_CHUNK * STATE_CHUNK;
    assert_eq!(slots.source.is_some(), done > 0);
    if let Some(source) = slots.source {
        assert_eq!(read(cache, source), digest(&tokens[..done]), "the state before token {start}");
    }
    if start > done {
        assert_eq!(read(cache, slots.pending), digest(&tokens[..start]), "tokens pending at {start}");
    }
    let written: HashSet<u32> = slots.targets.iter().map(|&(_, slot)| slot).chain([slots.pending]).collect();
    assert_eq!(written.len(), slots.targets.len() + 1);
    let states = cache.states.as_ref().unwrap();
    for &slot in &written {
        assert!(states.pool.references(slot) == 1 && !states.pool.is_cached(slot), "slot {slot} is shared");
    }
    let last = (end / STATE_CHUNK > start / STATE_CHUNK).then_some(end / STATE_CHUNK * STATE_CHUNK);
    assert_eq!(slots.targets.last().map(|&(position, _)| position as usize), last);
    for (position, slot) in slots.targets {
        write(cache, slot, digest(&tokens[..position as usize]));
    }
    write(cache, slots.pending, digest(&tokens[..end]));
    cache.commit(sequence, tokens, end);
    true
}

fn fill(cache: &mut KvCache, sequence: &mut SequenceCache, tokens: &[u32], chunk: usize, points: &[usize]) {
    while sequence.num_tokens() < tokens.len() {
        let end = (sequence.num_tokens() + chunk).min(tokens.len());
        assert!(step(cache, sequence, tokens, end, points));
    }
}

#[test]
fn recurrent_layers_take_slots_and_no_pages() {
    let plan = plan(16);
    assert_eq!(plan.groups.len(), 1);
    assert_eq!(plan.groups[0].layers, [2]);
    let states = plan.states.unwrap();
    assert_eq!(states.layers, 3);
    let places: Vec<usize> = [0, 1, 3].iter().map(|&layer| plan.layers[layer].layer_in_page).collect();
    assert_eq!(places, [0, 1, 2]);
    // Eight keys of 16 values and the tail of three inputs, beside 64 keys of 8, 64 updates of 16, 128 sums and the tail.
    let (state, pending) = (8 * 16 + 80, 64 * 8 + 64 * 16 + 128 + 80);
    assert_eq!(states.slot_bytes(), 3 * 4 * pending.max(state));
    assert_eq!((plan.slots_held(), plan.bytes_per_token()), (3, (2 * 16 * 4, 2 * 16 * 4)));
}

#[test]
fn snapshots_lie_on_whole_blocks_and_chunks() {
    for (block_size, unit) in [(16, 64), (32, 64), (48, 192), (64, 64), (80, 320), (256, 256)] {
        assert_eq!(plan(block_size).snapshot_unit(), unit, "blocks of {block_size}");
    }
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let recurrent = LayerKv::Recurrent(SHAPE);
    let other = LayerKv::Recurrent(RecurrentShape { key_dim: 16, ..SHAPE });
    let odd = LayerKv::Recurrent(RecurrentShape { value_heads: 3, key_heads: 2, ..SHAPE });
    for layers in [&[recurrent][..], &[recurrent, other, FULL], &[odd, FULL]] {
        assert!(KvPlan::new(layers, 16, KvDtype::F32).is_err(), "{layers:?}");
    }
    let cache = KvCache::new(&Backend::cpu(None).unwrap(), plan(16), 10, true).unwrap();
    assert!(matches!(cache.with_slots(2, 64), Err(KvError::Setting { setting: "state slots", .. })));
}

#[test]
fn hits_end_at_snapshots() {
    let mut cache = cache(200, 40, usize::MAX);
    let history = tokens(3, 700);
    let mut sequence = cache.attach(&history);
    fill(&mut cache, &mut sequence, &history, 150, &[200, 333, 640, 700]);
    cache.free(sequence);
    // The ends of whole chunks before the branch points; 640 serves 700 too.
    for (length, expected) in
        [(150, 0), (200, 192), (333, 320), (400, 320), (640, 320), (641, 640), (700, 640)]
    {
        assert_eq!(cache.cached_tokens(&history[..length]), expected, "{length} tokens");
    }
    let mut branch = history[..350].to_vec();
    branch.extend([90; 100]);
    let mut sequence = cache.attach(&branch);
    assert_eq!(sequence.num_tokens(), 320);
    fill(&mut cache, &mut sequence, &branch, 50, &[]);
    cache.free(sequence);
    // The state that a sequence ends with is a snapshot too.
    assert_eq!(cache.cached_tokens(&branch), 448);
    assert_eq!(cache.slot_usage().referenced, 0);
}

#[test]
fn snapshots_are_made_at_intervals_and_evicted_for_sequences() {
    let mut cache = cache(200, 6, 100);
    let history = tokens(3, 900);
    let mut sequence = cache.attach(&history);
    // The interval is rounded up to 128. One step could make seven of them; six slots hold the sequence and four.
    fill(&mut cache, &mut sequence, &history, 900, &[]);
    let usage = cache.slot_usage();
    assert_eq!((usage.total, usage.referenced, usage.evictable), (6, 2, 4));
    // The sequence's own state and the deepest four.
    for (length, expected) in [(900, 896), (800, 768), (400, 384), (300, 0)] {
        assert_eq!(cache.cached_tokens(&history[..length]), expected, "{length} tokens");
    }
    // Two more sequences take the snapshots' slots.
    let mut others: Vec<_> =
        [tokens(4, 150), tokens(5, 150)].map(|tokens| (cache.attach(&tokens), tokens)).into();
    for (sequence, tokens) in &mut others {
        fill(&mut cache, sequence, tokens, 40, &[]);
    }
    assert_eq!(cache.slot_usage().referenced, 6);
    assert_eq!((cache.cached_tokens(&history), cache.cached_tokens(&history[..800])), (896, 0));
    for sequence in others.into_iter().map(|(sequence, _)| sequence).chain([sequence]) {
        cache.free(sequence);
    }
    assert_eq!(cache.slot_usage().referenced, 0);
}

#[test]
fn a_step_that_came_to_no_end_leaves_no_snapshot() {
    let mut cache = cache(100, 8, 64);
    let history = tokens(3, 300);
    let mut sequence = cache.attach(&history);
    fill(&mut cache, &mut sequence, &history[..130], 130, &[]);
    cache.prepare_append(&mut sequence, 300).unwrap();
    cache.plan_snapshots(&mut sequence, 300, [200].into_iter());
    cache.free(sequence);
    assert_eq!(cache.slot_usage().referenced, 0);
    assert_eq!(cache.cached_tokens(&history), 128);
}

#[derive(Debug, Clone)]
enum Action {
    Start { seed: u32, length: usize },
    Append { which: usize, count: usize, point: usize },
    Fork { which: usize },
    Mark { which: usize, at: usize },
    Abandon { which: usize },
    Free { which: usize },
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        2 => (1u32..4, 20usize..500).prop_map(|(seed, length)| Action::Start { seed, length }),
        5 => (0usize..6, 1usize..200, 0usize..500)
            .prop_map(|(which, count, point)| Action::Append { which, count, point }),
        2 => (0usize..6).prop_map(|which| Action::Fork { which }),
        1 => (0usize..6, 0usize..500).prop_map(|(which, at)| Action::Mark { which, at }),
        1 => (0usize..6).prop_map(|which| Action::Abandon { which }),
        2 => (0usize..6).prop_map(|which| Action::Free { which }),
    ]
}

fn check(cache: &KvCache, live: &[(SequenceCache, Vec<u32>)], total: usize) {
    let mut owners: HashMap<u32, u32> = HashMap::new();
    for slot in live.iter().flat_map(|(sequence, _)| sequence.slots().held()) {
        *owners.entry(slot).or_default() += 1;
    }
    let states = cache.states.as_ref().unwrap();
    for slot in 0..total as u32 {
        assert_eq!(states.pool.references(slot), owners.get(&slot).copied().unwrap_or(0), "slot {slot}");
    }
    let usage = cache.slot_usage();
    assert_eq!(usage.referenced, owners.len());
    assert_eq!(usage.referenced + usage.evictable + usage.free, total);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn sequences_find_their_own_states(
        actions in prop::collection::vec(action(), 1..80),
        slots in 3usize..20,
        interval in prop_oneof![Just(64usize), Just(256), Just(usize::MAX)],
    ) {
        let mut cache = cache(90, slots, interval);
        let mut live: Vec<(SequenceCache, Vec<u32>)> = Vec::new();
        for action in actions {
            match action {
                Action::Start { seed, length } if live.len() < 6 => {
                    let tokens = tokens(seed, length);
                    live.push((cache.attach(&tokens), tokens));
                }
                Action::Append { which, count, point } if which < live.len() => {
                    let (sequence, tokens) = &mut live[which];
                    let end = (sequence.num_tokens() + count).min(tokens.len());
                    if end > sequence.num_tokens() {
                        step(&mut cache, sequence, tokens, end, &[point, tokens.len()]);
                    }
                }
                Action::Fork { which } if which < live.len() && live.len() < 6 => {
                    let fork = cache.fork(&live[which].0);
                    let mut tokens = live[which].1.clone();
                    let from = fork.num_tokens().min(tokens.len());
                    tokens[from..].iter_mut().for_each(|token| *token += 50);
                    live.push((fork, tokens));
                }
                Action::Mark { which, at } if which < live.len() => {
                    cache.mark_boundary(&live[which].0, at);
                }
                Action::Abandon { which } if which < live.len() => {
                    // What the step would have written is not known, so the sequence goes.
                    let (mut sequence, tokens) = live.swap_remove(which);
                    if cache.prepare_append(&mut sequence, tokens.len()).is_ok() {
                        cache.plan_snapshots(&mut sequence, tokens.len(), [tokens.len()].into_iter());
                    }
                    cache.free(sequence);
                }
                Action::Free { which } if which < live.len() => {
                    let (sequence, _) = live.swap_remove(which);
                    cache.free(sequence);
                }
                _ => {}
            }
            check(&cache, &live, slots);
        }
        for (sequence, _) in live {
            cache.free(sequence);
        }
        prop_assert_eq!(cache.slot_usage().referenced, 0);
        prop_assert_eq!(cache.usage().referenced, 0);
    }
}
