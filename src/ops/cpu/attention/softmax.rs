//! What happens to scores within a span, how spans are merged, and the final division.
use super::kernel::{SCORE_STRIDE, SPAN, SPAN_PANELS};
use crate::ops::cpu::{
    functions::tanh,
    simd::{Kernel, LANES, Lanes},
};
use std::ops::Range;

/// Multiplies rows of scores, or of p, by the scales of their keys or values, in place.
///
/// As [`Softmax`], touches the panels of visible keys alone; what comes of a masked key in them is never read into a result.
pub(super) struct ScaleScores<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) visible: &'a [Range<usize>],
    /// Sixteen a panel.
    pub(super) scales: &'a [*const f32; SPAN_PANELS],
}

impl Kernel for ScaleScores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        for (r, visible) in self.visible.iter().enumerate() {
            if visible.is_empty() {
                continue;
            }
            let panels = visible.start / LANES..visible.end.div_ceil(LANES);
            let row = &mut self.scores[r * SCORE_STRIDE..][..SPAN].as_chunks_mut::<LANES>().0[panels.clone()];
            for (panel, &scales) in row.iter_mut().zip(&self.scales[panels]) {
                // SAFETY: whoever makes the kernel promises sixteen scales at each visible panel.
                let scales = unsafe { l.load(scales) };
                *panel = l.to_array(l.mul(l.from_array(panel), scales));
            }
        }
    }
}

/// Turns rows of raw q.k into p, in place, with each row's maximum and sum.
///
/// Row r sees the keys `visible[r]` of the span; only those of its scores that lie in the panels these touch are read or written.
/// A row that sees nothing gets m = -inf and l = 0.
pub(super) struct Softmax<'a> {
    pub(super) scores: &'a mut [f32],
    pub(super) visible: &'a [Range<usize>],
    pub(super) scale: f32,
    pub(super) soft_cap: Option<f32>,
    pub(super) maxima: &'a mut [f32],
    pub(super) sums: &'a mut [f32],
}

impl Kernel for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        for (r, visible) in self.visible.iter().enumerate() {
            (self.maxima[r], self.sums[r]) = (f32::NEG_INFINITY, 0.0);
            if visible.is_empty() {
                continue;
            }
            let start = visible.start / LANES * LANES;
            let end = visible.end.next_multiple_of(LANES).min(SPAN);
            let row = &mut self.scores[r * SCORE_STRIDE..][start..end];
            let scale = l.splat(self.scale);
            for panel in row.as_chunks_mut::<LANES>().0 {
                let mut score = l.mul(scale, l.from_array(panel));
                if let Some(cap) = self.soft_cap {
                    let cap = l.splat(cap);
                    score = l.mul(cap, tanh(l, l.div(score, cap)));
                }
                *panel = l.to_array(score);
            }
            // exp makes an exact 0 of -inf, and adding 0 to a sum that is not negative changes nothing.
            row[..visible.start - start].fill(f32::NEG_INFINITY);
            row[visible.end - start..].fill(f32::NEG_INFINITY);
            let mut max = l.splat(f32::NEG_INFINITY);
            for panel in row.as_chunks::<LANES>().0 {
                max = l.max(l.from_array(panel), max);
            }
            let max = l.reduce_max(max);
            let mut sum = l.splat(0.0);
            for panel in row.as_chunks_mut::<LANES>().0 {
                let p = l.exp(l.sub(l.from_array(panel), l.splat(max)));
                sum = l.add(sum, p);
                *panel = l.to_array(p);
            }
            (self.maxima[r], self.sums[r]) = (max, l.reduce_add(sum));
        }
    }
}

/// A softmax-weighted sum over some of the keys, for a number of rows: maxima, sums of p, and sums of p v.
pub(super) struct Partial<'a> {
    pub(super) maxima: &'a mut [f32],
    pub(super) sums: &'a mut [f32],
    /// Rows as long as the values' rows.
    pub(super) outputs: &'a mut [f32],
}

impl Partial<'_> {
    /// Floats that a partial of `rows` rows takes.
    pub(super) fn floats(rows: usize, value_stride: usize) -> usize {
        rows * (value_stride + 2)
    }

    /// Parts a buffer of [`Self::floats`].
    pub(super) fn over(buffer: &mut [f32], rows: usize) -> Partial<'_> {
        let (maxima, rest) = buffer.split_at_mut(rows);
        let (sums, outputs) = rest.split_at_mut(rows);
        Partial { maxima, sums, outputs }
    }
}

/// Merges a later span into what came before it.
pub(super) struct Merge<'a, 'b> {
    pub(super) running: Partial<'a>,
    pub(super) span: Partial<'b>,
    pub(super) rows: usize,
    pub(super) value_stride: usize,
}

impl Kernel for Merge<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let (running, span) = (self.running, self.span);
        for r in 0..self.rows {
            // The greatest score alone contributes 1 to a sum, so 0 means that the row sees nothing of the span.
            if span.sums[r] == 0.0 {
                continue;
            }
            let (before, here) = (l.splat(running.maxima[r]), l.splat(span.maxima[r]));
            let max = l.max(before, here);
            let keep = l.exp(l.sub(before, max));
            let take = l.exp(l.sub(here, max));
            let sum = l.fma(l.splat(running.sums[r]), keep, l.mul(l.splat(span.sums[r]), take));
            running.maxima[r] = l.to_array(max)[0];
            running.sums[r] = l.to_array(sum)[0];
            let columns = r * self.value_stride..(r + 1) * self.value_stride;
            let target = running.outputs[columns.clone()].as_chunks_mut::<LANES>().0;
            for (target, source) in target.iter_mut().zip(span.outputs[columns].as_chunks::<LANES>().0) {
                let taken = l.mul(l.from_array(source), take);
                *target = l.to_array(l.fma(l.from_array(target), keep, taken));
            }
        }
    }
}

/// Divides by the sum, after the sinks joined it; row r goes to `outputs(r)`.
pub(super) struct Finish<'a, S, O> {
    pub(super) running: Partial<'a>,
    pub(super) rows: usize,
    pub(super) value_stride: usize,
    /// The sink of a row, if there are sinks.
    pub(super) sink: S,
    /// Where a row's result goes.
    pub(super) outputs: O,
}

impl<'o, S: Fn(usize) -> Option<f32>, O: Fn(usize) -> &'o mut [f32]> Kernel for Finish<'_, S, O> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        for r in 0..self.rows {
            let mut sum = l.splat(self.running.sums[r]);
            let mut keep = l.splat(1.0);
            if let Some(sink) = (self.sink)(r) {
                let (before, sink) = (l.splat(self.running.maxima[r]), l.splat(sink));
                let max = l.max(before, sink);
                keep = l.exp(l.sub(before, max));
                sum = l.fma(sum, keep, l.exp(l.sub(sink, max)));
            }
            let row = &self.running.outputs[r * self.value_stride..][..self.value_stride];
            let output = (self.outputs)(r);
            for (target, source) in output.chunks_mut(LANES).zip(row.as_chunks::<LANES>().0) {
                l.store_first(target, l.div(l.mul(l.from_array(source), keep), sum));
            }
        }
    }
}
