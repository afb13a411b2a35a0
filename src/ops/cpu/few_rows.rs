//! Rows times packed weights for a few rows: weights are dequantised in registers, once for all the rows.
use super::{
    panel::{PanelFormat, Panels, QUAD},
    simd::{Kernel, Lanes},
    threads::SharedOutput,
};
use std::{array::from_fn, marker::PhantomData, ops::Range};

/// Most rows that one pass takes.
pub(crate) const MAX_ROWS: usize = 4;

/// Bytes of panels that make a piece of work worth handing out.
const PIECE_BYTES: usize = 16 * 1024;

/// Panels that a thread takes at once.
pub(crate) fn grain(panels: &Panels<'_>) -> usize {
    (PIECE_BYTES / panels.panel_bytes.max(1)).next_multiple_of(2).max(2)
}

/// A few rows times the panels of a range.
pub(crate) struct FewRows<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which of its panels. No other thread may write their columns meanwhile.
    pub(crate) range: Range<usize>,
    /// `[rows, padded_in]`, one to [`MAX_ROWS`] rows.
    pub(crate) x: &'a [f32],
    /// `[out_features]`.
    pub(crate) bias: Option<&'a [f32]>,
    /// `[rows, out_features]`.
    pub(crate) out: &'a SharedOutput<'a, f32>,
    /// How the weights lie.
    pub(crate) format: PhantomData<F>,
}

impl<F: PanelFormat> FewRows<'_, F> {
    /// Each accumulator adds its products in ascending k, fused, from zero.
    ///
    /// Several panels at once are independent chains of additions, which hides their latency.
    #[inline(always)]
    fn accumulate<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &self,
        lanes: L,
        panels: [*const u8; PANELS],
        x: [*const f32; ROWS],
    ) -> [[L::F; ROWS]; PANELS] {
        let mut sums = [[lanes.splat(0.0); ROWS]; PANELS];
        for group in 0..self.panels.padded_in / F::GROUP {
            // SAFETY: the panels hold `padded_in / GROUP` groups of `GROUP / QUAD` quads, and the rows `padded_in` elements.
            unsafe {
                let mut groups = [F::group(lanes, panels[0], group); PANELS];
                for (group_of, panel) in groups.iter_mut().zip(panels) {
                    *group_of = F::group(lanes, panel, group);
                }
                for quad in 0..F::GROUP / QUAD {
                    let k = group * F::GROUP + quad * QUAD;
                    for (group, sums) in groups.iter().zip(&mut sums) {
                        let weights = F::quad(lanes, group, quad);
                        for (index, weight) in weights.into_iter().enumerate() {
                            for (row, sum) in x.iter().zip(sums.iter_mut()) {
                                *sum = lanes.fma(lanes.splat(*row.add(k + index)), weight, *sum);
                            }
                        }
                    }
                }
            }
        }
        sums
    }

    /// `ROWS` rows from `first_row` on, `PANELS` panels at a time. Where there are fewer, the last is computed again and dropped.
    #[inline(always)]
    fn rows<L: Lanes, const ROWS: usize, const PANELS: usize>(&self, lanes: L, first_row: usize) {
        let k = self.panels.padded_in;
        let rows = self.x.len() / k;
        let x: [*const f32; ROWS] = from_fn(
            #[inline(always)]
            |row| self.x[(first_row + row).min(rows - 1) * k..][..k].as_ptr(),
        );
        for first in self.range.clone().step_by(PANELS) {
            let panels: [*const u8; PANELS] = from_fn(
                #[inline(always)]
                |index| self.panels.panel((first + index).min(self.range.end - 1)),
            );
            let sums = self.accumulate(lanes, panels, x);
            for (panel, sums) in (first..self.range.end).zip(sums) {
                for (row, sum) in (first_row..rows).zip(sums) {
                    self.store(lanes, row, panel, sum);
                }
            }
        }
    }

    #[inline(always)]
    fn store<L: Lanes>(&self, lanes: L, row: usize, panel: usize, sum: L::F) {
        let columns = self.panels.columns(panel);
        let sum = match self.bias {
            Some(bias) => lanes.add(sum, lanes.load_first(&bias[columns.clone()], 0.0)),
            None => sum,
        };
        let start = row * self.panels.out_features;
        // SAFETY: the contract of `range` says that nobody else writes these columns.
        let out = unsafe { self.out.slice(start + columns.start..start + columns.end) };
        lanes.store_first(out, sum);
    }
}

impl<F: PanelFormat> Kernel for FewRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let rows = self.x.len() / self.panels.padded_in;
        // The accumulators must fit the registers, the dequantised weights beside them.
        if L::REGISTERS >= 32 {
            match rows {
                1 => self.rows::<L, 1, 2>(lanes, 0),
                2 => self.rows::<L, 2, 2>(lanes, 0),
                _ => self.rows::<L, 4, 2>(lanes, 0),
            }
        } else if L::REGISTERS >= 8 {
            match rows {
                1 => self.rows::<L, 1, 2>(lanes, 0),
                2 => self.rows::<L, 2, 1>(lanes, 0),
                _ => self.rows::<L, 4, 1>(lanes, 0),
            }
        } else {
            for row in 0..rows {
                self.rows::<L, 1, 1>(lanes, row);
            }
        }
    }
}
