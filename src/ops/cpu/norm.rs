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
            dispatch(cpu.instruction_set(), RmsNorm { x: &x[elements], weight, eps, output });
        });
    };
    // SAFETY: `x` is whole rows, and each row is stored.
    unsafe { filled_by(x.len() / n * n, write) }
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
            let mut sums = [l.splat(0.0); SUMS];
            for group in x.chunks(SUMS * LANES) {
                for (sum, x) in sums.iter_mut().zip(group.chunks(LANES)) {
                    let x = l.load_first(x, 0.0);
                    *sum = l.fma(x, x, *sum);
                }
            }
            let sum = l.add(l.add(sums[0], sums[1]), l.add(sums[2], sums[3]));
            let inverse = 1.0 / (l.reduce_add(sum) / n as f32 + self.eps).sqrt();
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
