//! Layer norm, row by row.
use super::{
    norm::{row_by_row, sum_row},
    simd::{Kernel, LANES, Lanes, dispatch},
};
use crate::ops::CpuBackend;

/// `x` is `[rows, n]`, n being the length of the weight and of the bias.
pub(crate) fn layer_norm(
    cpu: &CpuBackend,
    x: &[f32],
    (weight, bias): (&[f32], &[f32]),
    eps: f32,
) -> Vec<f32> {
    row_by_row(cpu, x, weight.len(), |x, output| {
        dispatch(cpu.instruction_set(), LayerNorm { x, weight, bias, eps, output });
    })
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
            let sum = sum_row(
                l,
                x,
                0.0,
                #[inline(always)]
                |sum, x| l.add(sum, x),
            );
            let mean = sum / n as f32;
            let center = l.splat(mean);
            // The mean fills the last lanes up, and so adds no deviation.
            let deviations = sum_row(
                l,
                x,
                mean,
                #[inline(always)]
                |sum, x| {
                    let deviation = l.sub(x, center);
                    l.fma(deviation, deviation, sum)
                },
            );
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
