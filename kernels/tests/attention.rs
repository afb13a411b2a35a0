//! Paged attention against float64, and its independence of everything but a row's own tokens.
#![cfg(any(feature = "emu", feature = "cuda"))]
mod support;
use half::{bf16, f16};
use longwick_kernels::{AttentionPlan, AttentionSequence, AttentionShape, Dtype, KernelError};
use std::ops::Range;
use support::{
    Float,
    attention::{Case, World},
    check_error,
    device::{Order, stream},
    pairs::{BLOCKS, DIMS, LENGTHS, all_pairs},
};

const GROUPS: [usize; 5] = [1, 4, 5, 8, 16];
const WINDOWS: [Option<u32>; 3] = [None, Some(24), Some(2000)];
/// Sinks and soft cap.
const EXTRAS: [(bool, Option<f32>); 3] = [(false, None), (true, None), (true, Some(5.0))];

/// Runs a step in every order; the bits must agree.
fn in_every_order<T: Float>(world: &World<T>, step: &[(usize, Range<usize>)]) -> (Vec<T>, Vec<f32>) {
    let mut results = Order::ALL.map(|order| world.attend(&mut stream(order), step)).into_iter();
    let first = results.next().expect("an order");
    for other in results {
        assert_eq!(bits(&first.out), bits(&other.out), "orders disagree: {:?}", world.case);
        assert_eq!(bits(&first.log_sum_exp), bits(&other.log_sum_exp), "orders disagree: {:?}", world.case);
    }
    (first.out, first.log_sum_exp)
}

fn bits<T: Float>(elements: &[T]) -> Vec<u32> {
    elements.iter().map(|x| x.bits()).collect()
}

fn check<T: Float>(case: Case, step: &[(usize, Range<usize>)]) {
    let world = World::<T>::new(case);
    let (out, log_sum_exp) = in_every_order(&world, step);
    let (exact, exact_log) = world.oracle(step);
    let (plain, plain_log) = world.plain(step);
    let what = format!("{} queries, {:?}", T::DTYPE, world.case);
    check_error(&what, &out, &plain, &exact);
    // A sum of weights and its logarithm lose a few bits more than the plain implementation, which may lose none.
    let slack = exact_log.iter().fold(1.0, |most: f64, x| most.max(x.abs())) * 4.0 * f64::from(f32::EPSILON);
    let worst = |found: &[f32]| {
        found.iter().zip(&exact_log).map(|(x, exact)| (f64::from(*x) - exact).abs()).fold(0.0, f64::max)
    };
    assert!(log_sum_exp.iter().all(|x| x.is_finite()), "{what}");
    let (found, allowed) = (worst(&log_sum_exp), 2.0 * worst(&plain_log) + slack);
    assert!(found <= allowed, "{what}: log-sum-exp error {found:e}, allowed {allowed:e}");
}

/// A sequence that is prefilled from its middle on, one that decodes, and a short one.
fn check_pairs<T: Float>(dtype: Dtype, caches: &[Dtype]) {
    let sizes =
        [caches.len(), DIMS.len(), LENGTHS.len(), GROUPS.len(), WINDOWS.len(), BLOCKS.len(), EXTRAS.len()];
    for choice in all_pairs(&sizes, dtype.bytes() as u64) {
        let length = LENGTHS[choice[2]];
        let group = GROUPS[choice[3]];
        let (has_sinks, soft_cap) = EXTRAS[choice[6]];
        let case = Case {
            dtype,
            cached: caches[choice[0]],
            kv_heads: if group > 4 { 1 } else { 2 },
            group,
            head_dim: DIMS[choice[1]],
            block_size: BLOCKS[choice[5]],
            window: WINDOWS[choice[4]],
            has_sinks,
            soft_cap,
            contexts: vec![length, length, 18],
            unused_blocks: 0,
            shared: 0,
        };
        // Long contexts take few queries, since the emulator is slow, but enough to cross a tile's edge.
        let queries = if length > 200 { 80 / group + 1 } else { length };
        check::<T>(case, &[(0, length - queries..length), (1, length - 1..length), (2, 17..18)]);
    }
}

#[test]
fn every_pair_of_values_is_accurate_f32() {
    check_pairs::<f32>(Dtype::F32, &[Dtype::F32, Dtype::Fp8E4m3]);
}

#[test]
fn every_pair_of_values_is_accurate_bf16() {
    check_pairs::<bf16>(Dtype::Bf16, &[Dtype::Bf16, Dtype::Fp8E4m3]);
}

#[test]
fn every_pair_of_values_is_accurate_f16() {
    check_pairs::<f16>(Dtype::F16, &[Dtype::F16, Dtype::Fp8E4m3]);
}

/// f32 queries about products on tensor cores: rounded as they are read, and the results not rounded.
#[test]
fn every_pair_of_values_is_accurate_between_f32_and_bf16() {
    check_pairs::<f32>(Dtype::Bf16, &[Dtype::Bf16, Dtype::Fp8E4m3]);
}

fn nine(dtype: Dtype, cached: Dtype, head_dim: usize, group: usize, window: Option<u32>) -> Case {
    Case {
        dtype,
        cached,
        kv_heads: 2,
        group,
        head_dim,
        block_size: 16,
        window,
        has_sinks: true,
        soft_cap: None,
        contexts: vec![600, 3, 40, 517, 256, 257, 512, 90, 300],
        unused_blocks: 0,
        shared: 0,
    }
}

/// One row alone (decode), in a batch of nine, at another place of the batch, and within chunks of several sizes (prefill).
fn check_independence<T: Float>(case: Case) {
    let world = World::<T>::new(case);
    let row = world.case.kv_heads * world.case.group * world.case.head_dim;
    for sequence in [0, 3, 5] {
        let last = world.case.contexts[sequence] - 1;
        let stream = &mut stream(Order::Forward);
        let alone = bits(&world.attend(stream, &[(sequence, last..last + 1)]).out);
        let mut batch: Vec<(usize, Range<usize>)> = world
            .case
            .contexts
            .iter()
            .enumerate()
            .map(|(other, &context)| (other, context - 1..context))
            .collect();
        let in_batch = world.attend(stream, &batch).out;
        assert_eq!(bits(&in_batch[sequence * row..(sequence + 1) * row]), alone, "in a batch");
        batch.reverse();
        let reversed = world.attend(stream, &batch).out;
        let place = batch.len() - 1 - sequence;
        assert_eq!(bits(&reversed[place * row..(place + 1) * row]), alone, "at another place");
        for chunk in [2, 17, 70] {
            let prefill = world.attend(stream, &[(1, 0..3), (sequence, last + 1 - chunk..last + 1)]).out;
            assert_eq!(bits(&prefill[prefill.len() - row..]), alone, "in a chunk of {chunk}");
        }
    }
}

#[test]
fn a_row_depends_on_its_tokens_alone() {
    check_independence::<bf16>(nine(Dtype::Bf16, Dtype::Bf16, 64, 4, None));
    check_independence::<bf16>(nine(Dtype::Bf16, Dtype::Bf16, 128, 8, Some(100)));
    check_independence::<f16>(nine(Dtype::F16, Dtype::Fp8E4m3, 80, 5, None));
    check_independence::<bf16>(nine(Dtype::Bf16, Dtype::Bf16, 256, 2, Some(300)));
    check_independence::<f16>(nine(Dtype::F16, Dtype::F16, 512, 1, None));
    check_independence::<f32>(nine(Dtype::F32, Dtype::F32, 128, 3, Some(33)));
    check_independence::<f32>(nine(Dtype::F32, Dtype::F32, 256, 2, None));
    check_independence::<f32>(nine(Dtype::F32, Dtype::F32, 512, 1, None));
    check_independence::<f32>(nine(Dtype::Bf16, Dtype::Bf16, 128, 4, None));
    check_independence::<f32>(nine(Dtype::Bf16, Dtype::Bf16, 512, 2, Some(70)));
    check_independence::<f32>(nine(Dtype::Bf16, Dtype::Fp8E4m3, 64, 3, None));
    check_independence::<f32>(nine(Dtype::Bf16, Dtype::Fp8E4m3, 128, 4, Some(100)));
}

/// Branches of one prefix give what each gives alone, whether a narrow tile or a wide one reads the prefix.
fn check_branches<T: Float>(dtype: Dtype, cached: Dtype, head_dim: usize, branches: usize) {
    let contexts = (0..branches).map(|i| 520 + 7 * i).collect();
    let case = Case { contexts, shared: 512, ..nine(dtype, cached, head_dim, 4, None) };
    let world = World::<T>::new(case);
    let step: Vec<(usize, Range<usize>)> =
        world.case.contexts.iter().enumerate().map(|(i, &context)| (i, context - 1..context)).collect();
    let (together, _) = in_every_order(&world, &step);
    let row = together.len() / branches;
    for (i, part) in step.iter().enumerate() {
        let alone = world.attend(&mut stream(Order::Forward), std::slice::from_ref(part)).out;
        assert_eq!(bits(&together[i * row..(i + 1) * row]), bits(&alone), "branch {i} of {branches}");
    }
    let (exact, _) = world.oracle(&step);
    check_error("branches", &together, &world.plain(&step).0, &exact);
}

#[test]
fn branches_read_a_prefix_together() {
    check_branches::<bf16>(Dtype::Bf16, Dtype::Bf16, 64, 3);
    check_branches::<bf16>(Dtype::Bf16, Dtype::Bf16, 128, 9);
    check_branches::<f32>(Dtype::F32, Dtype::F32, 32, 21);
    check_branches::<f32>(Dtype::Bf16, Dtype::Bf16, 64, 3);
    check_branches::<f32>(Dtype::Bf16, Dtype::Fp8E4m3, 64, 3);
}

/// A few tokens behind a long context are split by spans, and give what each gives alone; behind a short one a tile walks.
#[test]
fn a_few_tokens_behind_a_long_context_are_split() {
    let case = Case { contexts: vec![2_600], ..nine(Dtype::Bf16, Dtype::Bf16, 64, 4, None) };
    let world = World::<f32>::new(case);
    let (together, _) = in_every_order(&world, &[(0, 2_560..2_600)]);
    let row = together.len() / 40;
    for token in [0, 17, 39] {
        let alone = world.attend(&mut stream(Order::Forward), &[(0, 2_560 + token..2_561 + token)]).out;
        assert_eq!(bits(&together[token * row..(token + 1) * row]), bits(&alone), "token {token}");
    }
    let blocks: Vec<u32> = (0..163).collect();
    let workspace = |positions: Range<u32>| {
        let positions: Vec<u32> = positions.collect();
        let sequence = AttentionSequence { blocks: &blocks, first_position: 0, positions: &positions };
        AttentionPlan::new(shape(), &[sequence]).expect("plan").workspace_len()
    };
    assert!(workspace(2_560..2_600) > 0 && workspace(2_000..2_040) == 0);
    // So many tiles keep a card busy by walking.
    assert_eq!(workspace(0..2_600), 0);
}

#[test]
fn offsets_pass_two_to_the_31() {
    // Over 2^31 elements lie before the first block in use; pages that nothing touches cost nothing.
    let case = Case {
        contexts: vec![100, 40],
        unused_blocks: 140_000,
        ..nine(Dtype::Bf16, Dtype::Bf16, 512, 1, None)
    };
    assert!(140_000 * case.block_size * case.kv_heads * 2 * case.head_dim > 1 << 31);
    check::<bf16>(case, &[(0, 60..100), (1, 39..40)]);
}

fn shape() -> AttentionShape {
    AttentionShape {
        query_dtype: Dtype::Bf16,
        dtype: Dtype::Bf16,
        cache_dtype: Dtype::Bf16,
        q_heads: 4,
        kv_heads: 2,
        head_dim: 64,
        block_size: 16,
        window: None,
    }
}

#[test]
fn a_shared_prefix_is_planned_once() {
    let alone: Vec<u32> = (0..64).collect();
    let branch: Vec<u32> = (0..48).chain(100..116).collect();
    let apart: Vec<u32> = (200..264).collect();
    let plan = |tables: &[&[u32]]| {
        let mut sequences = Vec::new();
        for &blocks in tables {
            sequences.push(AttentionSequence { blocks, first_position: 0, positions: &[1023] });
        }
        AttentionPlan::new(shape(), &sequences).expect("plan")
    };
    let (branches, strangers) = (plan(&[&alone, &branch]), plan(&[&alone, &apart]));
    // Partial results are as many, whoever computes them. Three of four spans are read once: eight words less each.
    assert_eq!(branches.workspace_len(), strangers.workspace_len());
    assert_eq!(strangers.words().len() - branches.words().len(), 3 * 8);
}

#[test]
fn impossible_plans_are_refused() {
    let blocks = [0, 1];
    let plan = |change: fn(&mut AttentionShape), sequence| {
        let mut shape = shape();
        change(&mut shape);
        AttentionPlan::new(shape, &[sequence]).err().expect("refused")
    };
    let sound = AttentionSequence { blocks: &blocks, first_position: 0, positions: &[31] };
    assert!(AttentionPlan::new(shape(), &[sound]).is_ok());
    let past = plan(|_| (), AttentionSequence { positions: &[32], ..sound });
    assert!(matches!(past, KernelError::Value { argument: "positions", .. }), "{past}");
    let released = plan(|_| (), AttentionSequence { first_position: 16, ..sound });
    assert!(matches!(released, KernelError::Value { argument: "first_position", .. }), "{released}");
    let heads = plan(|shape| shape.q_heads = 3, sound);
    assert!(matches!(heads, KernelError::Value { argument: "q_heads", .. }), "{heads}");
    let size = plan(|shape| shape.head_dim = 48, sound);
    assert!(matches!(size, KernelError::Unsupported { .. }), "{size}");
    let cache = plan(|shape| shape.cache_dtype = Dtype::F32, sound);
    assert!(matches!(cache, KernelError::Unsupported { .. }), "{cache}");
    let queries = plan(|shape| shape.query_dtype = Dtype::F16, sound);
    assert!(matches!(queries, KernelError::Unsupported { .. }), "{queries}");
    let window = plan(|shape| shape.window = Some(0), sound);
    assert!(matches!(window, KernelError::Value { argument: "window", .. }), "{window}");
}
