//! Float weights.
use super::{Call, pieces::Pieces, registers};
use crate::ops::cpu::{
    float::{
        few_rows::{self, FewRows},
        many_rows::{ManyRows, TiledRows, Widen, lay_out_tile, tile_panels, tile_rows},
    },
    panel::FloatFormat,
    simd::{self, LANES},
    threads::SharedOutput,
};
use std::{borrow::Cow, marker::PhantomData, ops::Range};

impl Call<'_> {
    /// `x`: `[rows, in_features]`, at least one row.
    pub(super) fn float<F: FloatFormat>(&self, x: &[f32], rows: usize) {
        if rows > few_rows::MAX_ROWS {
            self.many_float_rows::<F>(x, rows);
        } else {
            self.few_float_rows::<F>(&self.pad(x, rows));
        }
    }

    /// Rows filled up with zeros to whole blocks. Panels hold zeros there, so a zero is added.
    fn pad<'x>(&self, x: &'x [f32], rows: usize) -> Cow<'x, [f32]> {
        if self.in_features == self.panels.padded_in {
            return Cow::Borrowed(x);
        }
        let mut padded = vec![0.0; rows * self.panels.padded_in];
        for (from, to) in x.chunks_exact(self.in_features).zip(padded.chunks_exact_mut(self.panels.padded_in))
        {
            to[..self.in_features].copy_from_slice(from);
        }
        Cow::Owned(padded)
    }

    fn few_float_rows<F: FloatFormat>(&self, x: &[f32]) {
        let (panels, out) = (self.panels, self.out);
        // Each panel, and so each column, is handed out once.
        self.cpu.for_each(panels.count(), panels.grain(), |range| {
            let kernel = FewRows::<F> { panels, range, x, out, format: PhantomData };
            simd::dispatch(self.cpu.instruction_set(), kernel);
        });
    }

    fn many_float_rows<F: FloatFormat>(&self, x: &[f32], rows: usize) {
        let registers = registers(self.cpu.instruction_set());
        let (tile_rows, tile_panels) = (tile_rows(registers), tile_panels(registers));
        let mut buffer = self.cpu.row_buffers().take_float(rows * self.panels.padded_in);
        let elements = &mut buffer[..rows * self.panels.padded_in];
        self.lay_out(x, tile_rows, elements);
        let x = TiledRows { elements, rows, tile_rows };

        let strips = self.panels.count().div_ceil(tile_panels);
        let pieces = Pieces::new(strips, rows.div_ceil(tile_rows), tile_rows, self.cpu.threads());
        let padded_in = self.panels.padded_in;
        let scratch = || Scratch { held: None, weights: vec![0.0; tile_panels * padded_in * LANES] };
        self.cpu.for_each_with(pieces.count(), 1, scratch, |scratch, range| {
            for piece in range {
                let (strip, tiles) = pieces.piece(piece);
                let range = strip * tile_panels..self.panels.count().min((strip + 1) * tile_panels);
                let columns = range.start * LANES..self.panels.columns(range.end - 1).end;
                self.widen::<F>(scratch, range);
                let kernel =
                    ManyRows { x, tiles, weights: &scratch.weights, padded_in, columns, out: self.out };
                simd::dispatch(self.cpu.instruction_set(), kernel);
            }
        });
        self.cpu.row_buffers().keep_float(buffer);
    }

    /// Lays rows out tile by tile.
    fn lay_out(&self, x: &[f32], tile_rows: usize, elements: &mut [f32]) {
        let (from, to) = (tile_rows * self.in_features, tile_rows * self.panels.padded_in);
        let tiles = x.len().div_ceil(from);
        let len = elements.len();
        let elements = SharedOutput::new(elements);
        self.cpu.for_each(tiles, 4, |range| {
            for tile in range {
                // SAFETY: each tile is handed out once, and tiles do not overlap.
                let out = unsafe { elements.slice(tile * to..len.min((tile + 1) * to)) };
                lay_out_tile(&x[tile * from..x.len().min((tile + 1) * from)], self.in_features, out);
            }
        });
    }

    /// Widens the panels of `range`, unless the thread's last piece left them there.
    fn widen<F: FloatFormat>(&self, scratch: &mut Scratch, range: Range<usize>) {
        if scratch.held == Some(range.start) {
            return;
        }
        scratch.held = Some(range.start);
        let kernel =
            Widen::<F> { panels: self.panels, range, out: &mut scratch.weights, format: PhantomData };
        simd::dispatch(self.cpu.instruction_set(), kernel);
    }
}

/// A thread's widened panels.
struct Scratch {
    held: Option<usize>,
    weights: Vec<f32>,
}
