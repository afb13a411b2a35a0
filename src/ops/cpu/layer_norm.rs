//! Layer norm, row by row.
use super::{
    simd::{Kernel, LANES, Lanes, dispatch},
    threads::SharedOutput,
};
use crate::ops::{CpuBackend, tensors::filled_by};

/// Elements that one piece of work takes, at the least: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 15;

/// Independent sums of sixteen lanes.
const SUMS: usize = 4;

/// `x` is `[rows, n]`, n being the length of the weight and of the bias.
pub(crate) fn layer_norm(
    cpu: &CpuBackend,
    x: &[f32],
    (weight, bias): (&[f32], &[f32]),
    eps: f32,
) -> Vec<f32> {
    let n = weight.len();
    if n == 0 {
        return Vec::new();
    }
    let write = |output: &mut [f32]| {
        let shared = SharedOutput::new(output);
        cpu.for_each(x.len() / n, GRAIN_ELEMENTS.div_ceil(n), |rows| {
            let elements = rows.start * n..rows.end * n;
            // SAFETY: each row is handed out once.
            let output = unsafe { shared.slice(elements.clone()) };
            dispatch(cpu.instruction_set(), LayerNorm { x: &x[elements], weight, bias, eps, output });
        });
    };
    // SAFETY: `x` is whole rows, and each row is stored.
    unsafe { filled_by(x.len() / n * n, write) }
}

struct LayerNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    bias: &'a [f32],
    eps: f32,
    output: &'a mut [f32],
}

impl Kernel for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let n = self.weight.len();
        for (x, output) in self.x.chunks_exact(n).zip(self.output.chunks_exact_mut(n)) {
            let mean = sum(l, x) / n as f32;
            let center = l.splat(mean);
            let deviations = sum_of_squares(l, x, mean);
            let inverse = l.splat(1.0 / (deviations / n as f32 + self.eps).sqrt());
            let parameters = self.weight.chunks(LANES).zip(self.bias.chunks(LANES));
            for ((x, (weight, bias)), output) in x.chunks(LANES).zip(parameters).zip(output.chunks_mut(LANES))
            {
                let scaled = l.mul(l.sub(l.load_first(x, 0.0), center), inverse);
                let shifted = l.fma(scaled, l.load_first(weight, 0.0), l.load_first(bias, 0.0));
                l.store_first(output, shifted);
            }
        }
    }
}

/// The sum of a row, in four times sixteen lanes.
#[inline(always)]
fn sum<L: Lanes>(l: L, x: &[f32]) -> f32 {
    let mut sums = [l.splat(0.0); SUMS];
    for group in x.chunks(SUMS * LANES) {
        for (sum, x) in sums.iter_mut().zip(group.chunks(LANES)) {
            *sum = l.add(*sum, l.load_first(x, 0.0));
        }
    }
    l.reduce_add(l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3])))
}

/// The sum of a row's squared deviations from `mean`, which fills the last lanes up and so adds none.
#[inline(always)]
fn sum_of_squares<L: Lanes>(l: L, x: &[f32], mean: f32) -> f32 {
    let center = l.splat(mean);
    let mut sums = [l.splat(0.0); SUMS];
    for group in x.chunks(SUMS * LANES) {
        for (sum, x) in sums.iter_mut().zip(group.chunks(LANES)) {
            let deviation = l.sub(l.load_first(x, mean), center);
            *sum = l.fma(deviation, deviation, *sum);
        }
    }
    l.reduce_add(l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3])))
}
