//! What the tests of the operations share: a generator, the backends to compare, and the error bound.
use super::{Backend, CpuBackend, InstructionSet};
use std::{num::NonZeroUsize, sync::Arc};

/// The scale of an fp8 head that has any.
pub(crate) fn fp8_scale(head: &[f32]) -> f32 {
    head.iter().fold(0.0_f32, |greatest, x| greatest.max(x.abs())) / 448.0
}

/// A small generator, so that a case is its seed.
pub(crate) struct Random(u64);

impl Random {
    /// From a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64 (Steele, Lea and Flood 2014).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1).
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Roughly normal, variance 1.
    pub(crate) fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.unit()).sum::<f32>() * std::f32::consts::FRAC_1_SQRT_2
    }

    /// `len` normal values.
    pub(crate) fn vector(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.normal()).collect()
    }

    /// A permutation of `0..len`.
    pub(crate) fn shuffled(&mut self, len: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..len as u32).collect();
        for last in (1..len).rev() {
            order.swap(last, self.next() as usize % (last + 1));
        }
        order
    }
}

/// Every instruction set of this processor, the portable one first, on one thread and on two.
pub(crate) fn backends() -> Vec<Backend> {
    let sets = InstructionSet::available().into_iter().rev();
    sets.flat_map(|set| [1, 2].map(|threads| backend(threads, set))).collect()
}

/// A backend of `threads` threads.
pub(crate) fn backend(threads: usize, set: InstructionSet) -> Backend {
    Backend::Cpu(Arc::new(CpuBackend::new(NonZeroUsize::new(threads).unwrap(), set).unwrap()))
}

/// Bit patterns, to compare exactly.
pub(crate) fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// FlashAttention's rule: the error against float64 may be at most twice that of the plain f32 computation, in the mean square and at worst;
/// with half a last place of slack, for cases where the plain computation happens to be exact.
pub(crate) fn assert_within_twice_plain(ours: &[f32], plain: &[f32], exact: &[f64], label: &str) {
    assert_eq!((ours.len(), plain.len()), (exact.len(), exact.len()), "{label}");
    let errors = |values: &[f32]| {
        let differences = values.iter().zip(exact).map(|(&a, b)| (f64::from(a) - b).abs());
        let worst = differences.clone().fold(0.0_f64, f64::max);
        ((differences.map(|d| d * d).sum::<f64>() / exact.len() as f64).sqrt(), worst)
    };
    assert!(ours.iter().all(|value| value.is_finite()), "{label}: not finite");
    let magnitude = exact.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    let slack = 0.5 * magnitude * f64::from(f32::EPSILON);
    let (ours, plain) = (errors(ours), errors(plain));
    assert!(ours.0 <= 2.0 * plain.0 + slack, "{label}: mean square {ours:?}, plain {plain:?}");
    assert!(ours.1 <= 2.0 * plain.1 + slack, "{label}: worst {ours:?}, plain {plain:?}");
}
