//! Fixed-point rows times packed weights for a few rows: weights are unpacked in registers, once for a tile of rows.
use super::{
    FIXED_BLOCK,
    rows::{FixedRow, FixedRows},
};
use crate::ops::cpu::{
    linear_output::LinearOutput,
    panel::{IntegerFormat, Panels, QUAD},
    simd::{Kernel, Lanes},
};
use std::{array::from_fn, marker::PhantomData, ops::Range};

/// Most rows for which unpacking again for each tile is cheaper than unpacking into memory.
pub(crate) const MAX_ROWS: usize = 12;

/// A few rows times the panels of a range.
pub(crate) struct FewRows<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which of its panels. No other thread may hold their columns of the output.
    pub(crate) range: Range<usize>,
    /// At least one row.
    pub(crate) x: FixedRows<'a>,
    /// Where the sums go.
    pub(crate) out: LinearOutput<'a>,
    /// How the weights lie.
    pub(crate) format: PhantomData<F>,
}

/// Adds a group's integer sums to the f32 sums.
///
/// # Safety
/// The rows must have block `block`.
#[inline(always)]
pub(super) unsafe fn add_group<L: Lanes, const ROWS: usize>(
    lanes: L,
    sums: &mut [L::F; ROWS],
    integers: [L::I; ROWS],
    x: &[FixedRow; ROWS],
    block: usize,
    scale: L::F,
    offset: Option<L::F>,
) {
    for ((sum, integer), row) in sums.iter_mut().zip(integers).zip(x) {
        // SAFETY: as the caller promises.
        let (row_scale, row_sum) = unsafe { (*row.scales.add(block), *row.sums.add(block)) };
        *sum = lanes.fma(lanes.mul(lanes.to_float(integer), lanes.splat(row_scale)), scale, *sum);
        if let Some(offset) = offset {
            *sum = lanes.fma(lanes.splat(row_sum), offset, *sum);
        }
    }
}

impl<F: IntegerFormat> FewRows<'_, F> {
    #[inline(always)]
    fn accumulate<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &self,
        lanes: L,
        panels: [*const u8; PANELS],
        x: [FixedRow; ROWS],
    ) -> [[L::F; ROWS]; PANELS] {
        let mut sums = [[lanes.splat(0.0); ROWS]; PANELS];
        for index in 0..self.panels.padded_in / F::GROUP {
            let mut integers = [[lanes.splat_int(0); ROWS]; PANELS];
            // SAFETY: the panels hold `padded_in / GROUP` groups of `GROUP / QUAD` quads, and the rows `padded_in` elements.
            unsafe {
                let mut groups = [F::group(lanes, panels[0], index); PANELS];
                for (group, panel) in groups.iter_mut().zip(panels) {
                    *group = F::group(lanes, panel, index);
                }
                for quad in 0..F::GROUP / QUAD {
                    let first = (index * F::GROUP + quad * QUAD) / 2;
                    for (group, integers) in groups.iter().zip(&mut integers) {
                        for (pair, weights) in F::quad(lanes, group, quad).into_iter().enumerate() {
                            for (row, integer) in x.iter().zip(integers.iter_mut()) {
                                let element = lanes.splat_int(row.pairs.add(first + pair).read_unaligned());
                                *integer = lanes.dot_pairs(*integer, element, weights);
                            }
                        }
                    }
                }
                let block = index * F::GROUP / FIXED_BLOCK;
                for ((group, integers), sums) in groups.iter().zip(integers).zip(&mut sums) {
                    let offset = if F::OFFSETS { Some(group.offset) } else { None };
                    add_group(lanes, sums, integers, &x, block, group.scale, offset);
                }
            }
        }
        sums
    }

    /// A tile of `ROWS` rows and `PANELS` panels. Where there are fewer, the last is computed again and dropped.
    #[inline(always)]
    fn tile<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &self,
        lanes: L,
        first_row: usize,
        first_panel: usize,
    ) {
        let x: [FixedRow; ROWS] = from_fn(
            #[inline(always)]
            |row| self.x.row(first_row + row),
        );
        let panels: [*const u8; PANELS] = from_fn(
            #[inline(always)]
            |index| self.panels.panel((first_panel + index).min(self.range.end - 1)),
        );
        let sums = self.accumulate(lanes, panels, x);
        for (panel, sums) in (first_panel..self.range.end).zip(sums) {
            for (row, sum) in (first_row..self.x.count()).zip(sums) {
                // SAFETY: the contract of `range` says that nobody else holds these columns.
                unsafe { self.out.store(lanes, row, self.panels.columns(panel), sum) };
            }
        }
    }

    /// All rows, `PANELS` panels at a time, in tiles of `ROWS` rows.
    #[inline(always)]
    fn tiles<L: Lanes, const ROWS: usize, const PANELS: usize>(&self, lanes: L) {
        for panel in self.range.clone().step_by(PANELS) {
            for row in (0..self.x.count()).step_by(ROWS) {
                self.tile::<L, ROWS, PANELS>(lanes, row, panel);
            }
        }
    }
}

impl<F: IntegerFormat> Kernel for FewRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // Integer and f32 sums must fit the registers, the unpacked weights beside them; several panels at once are independent
        // chains of additions, which hides their latency.
        match (L::REGISTERS, self.x.count()) {
            (32.., 1) => self.tiles::<L, 1, 4>(lanes),
            (32.., 2) => self.tiles::<L, 2, 2>(lanes),
            (32.., 3 | 4 | 7 | 8) => self.tiles::<L, 4, 2>(lanes),
            (32.., _) => self.tiles::<L, 6, 2>(lanes),
            (8.., 1) => self.tiles::<L, 1, 2>(lanes),
            (8.., 2) => self.tiles::<L, 2, 1>(lanes),
            (8.., _) => self.tiles::<L, 3, 1>(lanes),
            _ => self.tiles::<L, 1, 1>(lanes),
        }
    }
}
