//! Rows times packed floats for many rows: panels are widened once into scratch, then a register tile runs over all rows.
//!
//! Each output element adds its products in ascending k, fused, from zero: the same order, hence the same bits, as [`super::few_rows`].
use crate::ops::cpu::{
    linear_output::LinearOutput,
    panel::{FloatFormat, Panels, QUAD},
    simd::{Kernel, LANES, Lanes},
};
use std::{marker::PhantomData, ops::Range};

/// Rows of a register tile, when the registers hold `registers` times sixteen lanes.
pub(crate) const fn tile_rows(registers: usize) -> usize {
    match registers {
        32.. => 12,
        8.. => 6,
        _ => 4,
    }
}

/// Panels of a register tile.
pub(crate) const fn tile_panels(registers: usize) -> usize {
    if registers >= 32 { 2 } else { 1 }
}

/// Rows laid out for the tiles: tile by tile, k by k, the tile's rows side by side. The last tile holds what is left.
#[derive(Clone, Copy)]
pub(crate) struct TiledRows<'a> {
    /// `rows x padded_in` elements.
    pub(crate) elements: &'a [f32],
    /// Number of rows.
    pub(crate) rows: usize,
    /// Rows a tile.
    pub(crate) tile_rows: usize,
}

/// Lays the rows of `tile` (`[rows, in_features]`) side by side into `out` (`[padded_in, rows]`); missing k become zero.
pub(crate) fn lay_out_tile(tile: &[f32], in_features: usize, out: &mut [f32]) {
    match tile.len() / in_features {
        // Whole tiles: a constant number of rows lets the compiler keep their places in registers.
        12 => lay_out_rows::<12>(tile, in_features, out),
        6 => lay_out_rows::<6>(tile, in_features, out),
        rows => {
            for (row, elements) in tile.chunks_exact(in_features).enumerate() {
                for (element, line) in elements.iter().zip(out.chunks_exact_mut(rows)) {
                    line[row] = *element;
                }
            }
        }
    }
    out[tile.len()..].fill(0.0);
}

fn lay_out_rows<const ROWS: usize>(tile: &[f32], in_features: usize, out: &mut [f32]) {
    let rows: [&[f32]; ROWS] = std::array::from_fn(|row| &tile[row * in_features..][..in_features]);
    for (k, line) in (0..in_features).zip(out.chunks_exact_mut(ROWS)) {
        for (element, row) in line.iter_mut().zip(rows) {
            *element = row[k];
        }
    }
}

/// Widens a run of panels, k by k: `[panels, padded_in, 16]`.
pub(crate) struct Widen<'a, F> {
    /// The matrix.
    pub(crate) panels: Panels<'a>,
    /// Which panels.
    pub(crate) range: Range<usize>,
    /// Where to.
    pub(crate) out: &'a mut [f32],
    /// How they lie.
    pub(crate) format: PhantomData<F>,
}

impl<F: FloatFormat> Kernel for Widen<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let elements = self.panels.padded_in * LANES;
        for (index, out) in self.range.zip(self.out.chunks_exact_mut(elements)) {
            let panel = self.panels.panel(index);
            let mut to = out.as_mut_ptr();
            for quad in 0..self.panels.padded_in / QUAD {
                // SAFETY: the panel holds `padded_in / QUAD` quads, and `out` room for all their elements.
                unsafe {
                    for weight in F::quad(lanes, panel, quad) {
                        lanes.store(to, weight);
                        to = to.add(LANES);
                    }
                }
            }
        }
    }
}

/// Rows times widened panels.
pub(crate) struct ManyRows<'a> {
    /// The rows.
    pub(crate) x: TiledRows<'a>,
    /// Which of its tiles.
    pub(crate) tiles: Range<usize>,
    /// `[panels, padded_in, 16]`.
    pub(crate) weights: &'a [f32],
    /// Length of the dot product.
    pub(crate) padded_in: usize,
    /// The output columns of these panels. No other thread may hold them in these tiles' rows.
    pub(crate) columns: Range<usize>,
    /// Where the sums go.
    pub(crate) out: LinearOutput<'a>,
}

impl ManyRows<'_> {
    #[inline(always)]
    fn tile<L: Lanes, const ROWS: usize, const PANELS: usize>(&self, lanes: L, first_row: usize) {
        let x = self.x.elements[first_row * self.padded_in..][..ROWS * self.padded_in].as_ptr();
        let panels: [*const f32; PANELS] = std::array::from_fn(
            #[inline(always)]
            |panel| self.weights[panel * self.padded_in * LANES..][..self.padded_in * LANES].as_ptr(),
        );
        let mut sums = [[lanes.splat(0.0); PANELS]; ROWS];
        for k in 0..self.padded_in {
            // SAFETY: the slices above hold `padded_in` lines.
            unsafe {
                let mut weights = [lanes.splat(0.0); PANELS];
                for (weight, panel) in weights.iter_mut().zip(panels) {
                    *weight = lanes.load(panel.add(k * LANES));
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    let element = lanes.splat(*x.add(k * ROWS + row));
                    for (weight, sum) in weights.iter().zip(sums) {
                        *sum = lanes.fma(element, *weight, *sum);
                    }
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            for (panel, sum) in sums.into_iter().enumerate() {
                let start = self.columns.start + panel * LANES;
                let columns = start..self.columns.end.min(start + LANES);
                // SAFETY: the contract of `columns` says that nobody else holds them.
                unsafe { self.out.store(lanes, first_row + row, columns, sum) };
            }
        }
    }

    #[inline(always)]
    fn tiles<L: Lanes, const PANELS: usize>(&self, lanes: L) {
        let height = self.x.tile_rows;
        for tile in self.tiles.clone() {
            let first_row = tile * height;
            match height.min(self.x.rows - first_row) {
                1 => self.tile::<L, 1, PANELS>(lanes, first_row),
                2 => self.tile::<L, 2, PANELS>(lanes, first_row),
                3 => self.tile::<L, 3, PANELS>(lanes, first_row),
                4 => self.tile::<L, 4, PANELS>(lanes, first_row),
                5 if L::REGISTERS >= 8 => self.tile::<L, 5, PANELS>(lanes, first_row),
                6 if L::REGISTERS >= 8 => self.tile::<L, 6, PANELS>(lanes, first_row),
                rows if L::REGISTERS >= 32 => self.tall_tile::<L, PANELS>(lanes, first_row, rows),
                rows => unreachable!("a tile of {rows} rows"),
            }
        }
    }

    #[inline(always)]
    fn tall_tile<L: Lanes, const PANELS: usize>(&self, lanes: L, first_row: usize, rows: usize) {
        match rows {
            7 => self.tile::<L, 7, PANELS>(lanes, first_row),
            8 => self.tile::<L, 8, PANELS>(lanes, first_row),
            9 => self.tile::<L, 9, PANELS>(lanes, first_row),
            10 => self.tile::<L, 10, PANELS>(lanes, first_row),
            11 => self.tile::<L, 11, PANELS>(lanes, first_row),
            12 => self.tile::<L, 12, PANELS>(lanes, first_row),
            rows => unreachable!("a tile of {rows} rows"),
        }
    }
}

impl Kernel for ManyRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        debug_assert_eq!(self.x.tile_rows, tile_rows(L::REGISTERS));
        if tile_panels(L::REGISTERS) == 2 && self.columns.len() > LANES {
            self.tiles::<L, 2>(lanes);
        } else {
            self.tiles::<L, 1>(lanes);
        }
    }
}
