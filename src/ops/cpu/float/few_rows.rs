//! Rows times packed floats for a few rows: weights are widened in registers, once for all the rows.
use crate::ops::cpu::{
    linear_output::LinearOutput,
    panel::{FloatFormat, Panels, QUAD},
    simd::{Kernel, Lanes},
};
use std::{array::from_fn, marker::PhantomData, ops::Range};

/// Most rows that one pass takes.
pub(crate) const MAX_ROWS: usize = 4;

/// A few rows times the panels of a range.
pub(crate) struct FewRows<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which of its panels. No other thread may hold their columns of the output.
    pub(crate) range: Range<usize>,
    /// `[rows, padded_in]`, one to [`MAX_ROWS`] rows.
    pub(crate) x: &'a [f32],
    /// Where the sums go.
    pub(crate) out: LinearOutput<'a>,
    /// How the weights lie.
    pub(crate) format: PhantomData<F>,
}

impl<F: FloatFormat> FewRows<'_, F> {
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
        for quad in 0..self.panels.padded_in / QUAD {
            // SAFETY: the panels hold `padded_in / QUAD` quads, and the rows `padded_in` elements.
            unsafe {
                for (panel, sums) in panels.iter().zip(&mut sums) {
                    for (index, weight) in F::quad(lanes, *panel, quad).into_iter().enumerate() {
                        for (row, sum) in x.iter().zip(sums.iter_mut()) {
                            *sum = lanes.fma(lanes.splat(*row.add(quad * QUAD + index)), weight, *sum);
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
                    // SAFETY: the contract of `range` says that nobody else holds these columns.
                    unsafe { self.out.store(lanes, row, self.panels.columns(panel), sum) };
                }
            }
        }
    }
}

impl<F: FloatFormat> Kernel for FewRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let rows = self.x.len() / self.panels.padded_in;
        // The accumulators must fit the registers, the widened weights beside them.
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
