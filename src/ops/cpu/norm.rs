//! RMS norm, row by row.
use super::{
    simd::{Kernel, LANES, Lanes, dispatch},
    threads::SharedOutput,
};
use crate::ops::{CpuBackend, tensors::filled_by};

/// Elements that one piece of work takes, at the least: waking another thread takes longer than fewer.
const GRAIN_ELEMENTS: usize = 1 << 15;

/// Independent sums of sixteen lanes.
const SUMS: usize = 4;

/// `x` is `[rows, n]`, n being the length of `weight`.
pub(crate) fn rms_norm(cpu: &CpuBackend, x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    row_by_row(cpu, x, weight.len(), |x, output| {
        dispatch(cpu.instruction_set(), RmsNorm { x, weight, eps, output });
    })
}

/// Parts the rows of `x`, `[rows, n]`, among the threads; `norm` stores every element of the rows it is handed.
pub(super) fn row_by_row(
    cpu: &CpuBackend,
    x: &[f32],
    n: usize,
    norm: impl Fn(&[f32], &mut [f32]) + Sync,
) -> Vec<f32> {
    if n == 0 {
        return Vec::new();
    }
    let write = |output: &mut [f32]| {
        let shared = SharedOutput::new(output);
        cpu.for_each(x.len() / n, GRAIN_ELEMENTS.div_ceil(n), |rows| {
            let elements = rows.start * n..rows.end * n;
            // SAFETY: each row is handed out once.
            let output = unsafe { shared.slice(elements.clone()) };
            norm(&x[elements], output);
        });
    };
    // SAFETY: `x` is whole rows, and each row is stored.
    unsafe { filled_by(x.len() / n * n, write) }
}

/// Adds up a row in four times sixteen lanes: `add(sum, x)` gives each next sum. `fill` stands for what the last lanes lack.
#[inline(always)]
pub(super) fn sum_row<L: Lanes>(l: L, x: &[f32], fill: f32, add: impl Fn(L::F, L::F) -> L::F) -> f32 {
    let mut sums = [l.splat(0.0); SUMS];
    for group in x.chunks(SUMS * LANES) {
        for (sum, x) in sums.iter_mut().zip(group.chunks(LANES)) {
            *sum = add(*sum, l.load_first(x, fill));
        }
    }
    l.reduce_add(l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3])))
}

struct RmsNorm<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    output: &'a mut [f32],
}

impl Kernel for RmsNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let n = self.weight.len();
        for (x, output) in self.x.chunks_exact(n).zip(self.output.chunks_exact_mut(n)) {
            let squares = sum_row(
                l,
                x,
                0.0,
                #[inline(always)]
                |sum, x| l.fma(x, x, sum),
            );
            let inverse = 1.0 / (squares / n as f32 + self.eps).sqrt();
            let inverse = l.splat(inverse);
            for ((x, weight), output) in
                x.chunks(LANES).zip(self.weight.chunks(LANES)).zip(output.chunks_mut(LANES))
            {
                let scaled = l.mul(l.load_first(x, 0.0), inverse);
                l.store_first(output, l.mul(scaled, l.load_first(weight, 0.0)));
            }
        }
    }
}
