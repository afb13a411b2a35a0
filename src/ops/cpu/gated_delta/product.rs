//! Small products that add to what is there.
use crate::ops::cpu::simd::{LANES, Lanes};
use std::array::from_fn;

/// `out[r][c] += sum over k of a[r][k] m[k][c]`: each element one chain of fused multiply-adds over ascending k, from its old
/// value, whatever the number of rows.
pub(super) struct Product {
    /// `[rows][depth]`, `a_stride` from row to row.
    pub(super) a: *const f32,
    pub(super) a_stride: usize,
    pub(super) rows: usize,
    pub(super) depth: usize,
    /// `[depth][columns]`, `m_stride` from row to row.
    pub(super) m: *const f32,
    pub(super) m_stride: usize,
    /// Sixteens of columns.
    pub(super) runs: usize,
    /// `[rows][columns]`, `out_stride` from row to row.
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
}

impl Product {
    /// Carries it out.
    ///
    /// # Safety
    /// The three matrices must lie in memory as described, and `out` overlap neither of the others.
    #[inline(always)]
    pub(super) unsafe fn run<L: Lanes>(&self, l: L) {
        // SAFETY: passed on.
        unsafe {
            if self.rows == 1 {
                self.tiled::<L, 1, 4>(l);
            } else if L::REGISTERS >= 16 {
                self.tiled::<L, 4, 2>(l);
            } else {
                self.tiled::<L, 4, 1>(l);
            }
        }
    }

    /// `ROWS` rows by `RUNS` runs of columns at a time: independent chains, which hide their latency. At the edges the last
    /// row and run are taken again; all of a tile is read before any of it is written, so that they come out the same twice.
    #[inline(always)]
    unsafe fn tiled<L: Lanes, const ROWS: usize, const RUNS: usize>(&self, l: L) {
        for first_run in (0..self.runs).step_by(RUNS) {
            let columns: [usize; RUNS] = from_fn(
                #[inline(always)]
                |run| (first_run + run).min(self.runs - 1) * LANES,
            );
            for first_row in (0..self.rows).step_by(ROWS) {
                let rows: [usize; ROWS] = from_fn(
                    #[inline(always)]
                    |row| (first_row + row).min(self.rows - 1),
                );
                // SAFETY: rows and columns lie within the matrices that the caller described.
                unsafe {
                    let mut sums = [[l.splat(0.0); RUNS]; ROWS];
                    for (row, sums) in rows.iter().zip(&mut sums) {
                        for (column, sum) in columns.iter().zip(sums) {
                            *sum = l.load(self.out.add(row * self.out_stride + column));
                        }
                    }
                    for k in 0..self.depth {
                        let line = self.m.add(k * self.m_stride);
                        let mut values = [l.splat(0.0); RUNS];
                        for (column, value) in columns.iter().zip(&mut values) {
                            *value = l.load(line.add(*column));
                        }
                        for (row, sums) in rows.iter().zip(&mut sums) {
                            let factor = l.splat(*self.a.add(row * self.a_stride + k));
                            for (value, sum) in values.iter().zip(sums) {
                                *sum = l.fma(factor, *value, *sum);
                            }
                        }
                    }
                    for (row, sums) in rows.iter().zip(sums) {
                        for (column, sum) in columns.iter().zip(sums) {
                            l.store(self.out.add(row * self.out_stride + column), sum);
                        }
                    }
                }
            }
        }
    }
}
