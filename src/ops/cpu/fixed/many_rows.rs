//! Fixed-point rows times unpacked weights for many rows: a register tile runs over all rows.
use super::{
    FIXED_BLOCK,
    few_rows::add_group,
    rows::{FixedRow, FixedRows},
    unpacked::Unpacked,
};
use crate::ops::cpu::{
    linear_output::LinearOutput,
    panel::IntegerFormat,
    simd::{Kernel, LANES, Lanes},
};
use std::{array::from_fn, marker::PhantomData, ops::Range};

/// Rows of a register tile, when the registers hold `registers` times sixteen lanes.
pub(crate) const fn tile_rows(registers: usize) -> usize {
    match registers {
        32.. => 6,
        8.. => 3,
        _ => 1,
    }
}

/// Panels of a register tile.
pub(crate) const fn tile_panels(registers: usize) -> usize {
    if registers >= 32 { 2 } else { 1 }
}

/// Rows times unpacked panels.
pub(crate) struct ManyRows<'a, F> {
    /// The rows.
    pub(crate) x: FixedRows<'a>,
    /// Which tiles of [`tile_rows`] rows.
    pub(crate) tiles: Range<usize>,
    /// The panels: [`tile_panels`] at most.
    pub(crate) weights: &'a Unpacked,
    /// Length of the dot product.
    pub(crate) padded_in: usize,
    /// The output columns of these panels. No other thread may hold them in these tiles' rows.
    pub(crate) columns: Range<usize>,
    /// Where the sums go.
    pub(crate) out: LinearOutput<'a>,
    /// What the weights were unpacked from.
    pub(crate) format: PhantomData<F>,
}

impl<F: IntegerFormat> ManyRows<'_, F> {
    /// Where there are fewer rows, the last is computed again and dropped.
    #[inline(always)]
    fn tile<L: Lanes, const ROWS: usize, const PANELS: usize>(&self, lanes: L, first_row: usize) {
        let (pairs, groups) = (self.padded_in / 2 * LANES, self.padded_in / F::GROUP * LANES);
        let x: [FixedRow; ROWS] = from_fn(
            #[inline(always)]
            |row| self.x.row(first_row + row),
        );
        let weights = self.weights.pairs[..PANELS * pairs].as_ptr();
        let scales = self.weights.scales[..PANELS * groups].as_ptr();
        let offsets = self.weights.offsets[..if F::OFFSETS { PANELS * groups } else { 0 }].as_ptr();
        let mut sums = [[lanes.splat(0.0); ROWS]; PANELS];
        for group in 0..self.padded_in / F::GROUP {
            let mut integers = [[lanes.splat_int(0); ROWS]; PANELS];
            // SAFETY: the slices above hold all groups of `PANELS` panels, and the rows `padded_in` elements.
            unsafe {
                for pair in group * F::GROUP / 2..(group + 1) * F::GROUP / 2 {
                    let mut weight = [lanes.splat_int(0); PANELS];
                    for (panel, weight) in weight.iter_mut().enumerate() {
                        *weight = lanes.load_int(weights.add(panel * pairs + pair * LANES));
                    }
                    for (index, row) in x.iter().enumerate() {
                        let element = lanes.splat_int(row.pairs.add(pair).read_unaligned());
                        for (weight, integers) in weight.iter().zip(&mut integers) {
                            integers[index] = lanes.dot_pairs(integers[index], element, *weight);
                        }
                    }
                }
                let block = group * F::GROUP / FIXED_BLOCK;
                for (panel, (sums, integers)) in sums.iter_mut().zip(integers).enumerate() {
                    let at = panel * groups + group * LANES;
                    let offset = if F::OFFSETS { Some(lanes.load(offsets.add(at))) } else { None };
                    add_group(lanes, sums, integers, &x, block, lanes.load(scales.add(at)), offset);
                }
            }
        }
        for (panel, sums) in sums.into_iter().enumerate() {
            let start = (self.columns.start + panel * LANES).min(self.columns.end);
            let columns = start..self.columns.end.min(start + LANES);
            for (row, sum) in (first_row..self.x.count()).zip(sums) {
                // SAFETY: the contract of `columns` says that nobody else holds them.
                unsafe { self.out.store(lanes, row, columns.clone(), sum) };
            }
        }
    }

    #[inline(always)]
    fn tiles<L: Lanes, const ROWS: usize, const PANELS: usize>(&self, lanes: L) {
        debug_assert!(ROWS == tile_rows(L::REGISTERS) && PANELS == tile_panels(L::REGISTERS));
        for tile in self.tiles.clone() {
            self.tile::<L, ROWS, PANELS>(lanes, tile * ROWS);
        }
    }
}

impl<F: IntegerFormat> Kernel for ManyRows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        match L::REGISTERS {
            32.. => self.tiles::<L, 6, 2>(lanes),
            8.. => self.tiles::<L, 3, 1>(lanes),
            _ => self.tiles::<L, 1, 1>(lanes),
        }
    }
}
