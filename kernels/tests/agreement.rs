//! The card against the emulator: one text, two compilers. Run on a machine with a GPU by `scripts/device_check.sh`.
#![cfg(all(feature = "emu", feature = "cuda"))]
mod support;
use half::{bf16, f16};
use longwick_kernels::{Dtype, Stream, emu};
use std::ops::Range;
use support::{
    Float,
    attention::{Case, World},
    device::{Order, is_cuda, stream},
};

/// Both differ from float64 by at most twice the plain implementation's error; from one another by at most four times that.
fn check<T: Float>(dtype: Dtype, cached: Dtype, head_dim: usize, group: usize, window: Option<u32>) {
    let case = Case {
        dtype,
        cached,
        kv_heads: 2,
        group,
        head_dim,
        block_size: 16,
        window,
        has_sinks: true,
        soft_cap: None,
        contexts: vec![700, 33, 300],
        unused_blocks: 2,
        shared: 0,
    };
    let world = World::<T>::new(case);
    let step: [(usize, Range<usize>); 3] = [(0, 640..700), (1, 0..33), (2, 299..300)];
    let card = world.attend(&mut stream(Order::Forward), &step).out;
    let emulated = world.attend(&mut Stream::emu(emu::Order::Forward), &step).out;
    let (exact, _) = world.oracle(&step);
    let plain = world.plain(&step).0;
    let worst = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, |worst: f64, error| worst.max(error))
    };
    let allowed = 4.0 * worst(&mut plain.iter().map(|x| f64::from(x.f32())).zip(exact));
    let values = |found: &[T]| found.iter().map(|x| f64::from(x.f32())).collect::<Vec<_>>();
    let found = worst(&mut values(&card).into_iter().zip(values(&emulated)));
    assert!(found <= allowed, "head size {head_dim}: {found:e} apart, allowed {allowed:e}");
}

#[test]
fn the_card_agrees_with_the_emulator() {
    if !is_cuda() {
        println!("skipped: set LONGWICK_KERNEL_DEVICE=cuda on a machine with a GPU");
        return;
    }
    for head_dim in [64, 80, 128, 256, 512] {
        check::<bf16>(Dtype::Bf16, Dtype::Bf16, head_dim, 4, None);
        check::<bf16>(Dtype::Bf16, Dtype::Fp8E4m3, head_dim, 1, Some(100));
        check::<f16>(Dtype::F16, Dtype::F16, head_dim, 8, Some(24));
        check::<f32>(Dtype::F32, Dtype::F32, head_dim, 5, None);
        check::<f32>(Dtype::Bf16, Dtype::Bf16, head_dim, 4, None);
    }
}
