//! The register tiles of attention: q.k over a key panel, and p.v over value rows.
use crate::ops::cpu::{
    kv_element::KvElement,
    simd::{Kernel, LANES, Lanes},
};
use std::ops::Range;

/// Keys a span.
pub(crate) const SPAN: usize = 256;
/// Panels of 16 keys a span.
pub(super) const SPAN_PANELS: usize = SPAN / LANES;
/// Elements from one score row to the next: not a power of two, so that rows of a tile fall into different cache sets.
pub(super) const SCORE_STRIDE: usize = SPAN + LANES;
/// Elements from one query row to the next; likewise.
pub(super) const QUERY_STRIDE: usize = 512 + LANES;

/// Whether tiles of so many rows wait for memory rather than for arithmetic.
pub(super) const fn waits_for_memory(rows: usize) -> bool {
    rows <= 8
}

/// Asks for a cache line ahead of its use. Any address will do: a bad one is ignored.
#[inline(always)]
fn prefetch<E>(address: *const E) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// q.k of `R` rows with `C` panels of sixteen keys: each product summed over ascending dimensions from 0.
///
/// `q` holds R rows of `QUERY_STRIDE`; panel c is `[dim][16]` at `panels[c]`; `scores` takes R rows of `SCORE_STRIDE`, 16 C each.
/// `ahead` are the panels that will be wanted next.
pub(super) struct Scores<E, const R: usize, const C: usize> {
    pub(super) q: *const f32,
    pub(super) dim: usize,
    pub(super) panels: [*const E; C],
    pub(super) ahead: [*const E; C],
    pub(super) scores: *mut f32,
}

impl<E: KvElement, const R: usize, const C: usize> Kernel for Scores<E, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let mut sums = [[l.splat(0.0); C]; R];
        let mut panels = self.panels;
        let mut ahead = self.ahead;
        let mut q = self.q;
        // SAFETY: whoever makes the kernel promises rows and panels of `dim` elements and room for the scores.
        unsafe {
            for _ in 0..self.dim {
                let mut keys = [l.splat(0.0); C];
                for (key, panel) in keys.iter_mut().zip(&mut panels) {
                    *key = E::load(l, *panel);
                    *panel = panel.add(LANES);
                }
                if waits_for_memory(R) {
                    for panel in &mut ahead {
                        prefetch(*panel);
                        *panel = panel.wrapping_add(LANES);
                    }
                }
                for (r, sums) in sums.iter_mut().enumerate() {
                    let query = l.splat(*q.add(r * QUERY_STRIDE));
                    for (sum, key) in sums.iter_mut().zip(keys) {
                        *sum = l.fma(query, key, *sum);
                    }
                }
                q = q.add(1);
            }
            for (r, sums) in sums.iter().enumerate() {
                for (c, sum) in sums.iter().enumerate() {
                    l.store(self.scores.add(r * SCORE_STRIDE + c * LANES), *sum);
                }
            }
        }
    }
}

/// Adds p.v over `keys` (of the span) to `R` rows of 16 C columns, ascending.
///
/// `p` holds R rows of `SCORE_STRIDE`; panel j's value rows, `value_stride` apart, begin at `panels[j]`, already moved to the first
/// of the columns; `sums` is the first row's first column, rows `sum_stride` apart.
pub(super) struct WeightedValues<'a, E, const R: usize, const C: usize> {
    pub(super) p: *const f32,
    pub(super) panels: &'a [*const E; SPAN_PANELS],
    pub(super) column: usize,
    pub(super) value_stride: usize,
    pub(super) keys: Range<usize>,
    pub(super) sums: *mut f32,
    pub(super) sum_stride: usize,
}

impl<E: KvElement, const R: usize, const C: usize> Kernel for WeightedValues<'_, E, R, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) {
        let mut sums = [[l.splat(0.0); C]; R];
        // SAFETY: whoever makes the kernel promises that the rows, the panels of `keys` and the sums are there.
        unsafe {
            for (r, sums) in sums.iter_mut().enumerate() {
                for (c, sum) in sums.iter_mut().enumerate() {
                    *sum = l.load(self.sums.add(r * self.sum_stride + c * LANES));
                }
            }
            let mut key = self.keys.start;
            while key < self.keys.end {
                let stop = self.keys.end.min((key / LANES + 1) * LANES);
                let mut row = self.panels[key / LANES].add(key % LANES * self.value_stride + self.column);
                let ahead = self.panels[(key / LANES + 1).min(SPAN_PANELS - 1)];
                let mut ahead = ahead.wrapping_add(key % LANES * self.value_stride + self.column);
                let mut p = self.p.add(key);
                for _ in key..stop {
                    let mut values = [l.splat(0.0); C];
                    for (c, value) in values.iter_mut().enumerate() {
                        *value = E::load(l, row.add(c * LANES));
                    }
                    if waits_for_memory(R) {
                        for c in 0..C {
                            prefetch(ahead.wrapping_add(c * LANES));
                        }
                        ahead = ahead.wrapping_add(self.value_stride);
                    }
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let weight = l.splat(*p.add(r * SCORE_STRIDE));
                        for (sum, value) in sums.iter_mut().zip(values) {
                            *sum = l.fma(weight, value, *sum);
                        }
                    }
                    p = p.add(1);
                    row = row.add(self.value_stride);
                }
                key = stop;
            }
            for (r, sums) in sums.iter().enumerate() {
                for (c, sum) in sums.iter().enumerate() {
                    l.store(self.sums.add(r * self.sum_stride + c * LANES), *sum);
                }
            }
        }
    }
}
