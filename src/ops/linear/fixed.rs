//! Quantised weights: rows become fixed-point numbers.
use super::{Call, pieces::Pieces, registers};
use crate::ops::cpu::{
    fixed::{
        FIXED_BLOCK,
        few_rows::{self, FewRows},
        many_rows::{ManyRows, tile_panels, tile_rows},
        rows::{FixedBuffer, FixedRows, Round},
        unpacked::{Unpack, Unpacked},
    },
    panel::IntegerFormat,
    simd::{self, LANES},
};
use std::{marker::PhantomData, ops::Range};

/// Blocks that a thread rounds at once.
const ROUNDING_GRAIN: usize = 512;

impl Call<'_> {
    /// `x`: `[rows, in_features]`, at least one row.
    pub(super) fn fixed<F: IntegerFormat>(&self, x: &[f32], rows: usize) {
        // A quantised row is whole blocks, so there is nothing to fill up.
        debug_assert_eq!(self.panels.padded_in, self.in_features);
        let mut buffer = self.cpu.row_buffers().take_fixed();
        self.round(x, &mut buffer);
        let x = buffer.rows(rows, self.in_features);
        if rows > few_rows::MAX_ROWS {
            self.many_fixed_rows::<F>(x);
        } else {
            self.few_fixed_rows::<F>(x);
        }
        self.cpu.row_buffers().keep_fixed(buffer);
    }

    fn round(&self, x: &[f32], buffer: &mut FixedBuffer) {
        let blocks = x.len() / FIXED_BLOCK;
        buffer.reserve(blocks);
        let out = &buffer.output();
        self.cpu.for_each(blocks, ROUNDING_GRAIN, |blocks| {
            simd::dispatch(self.cpu.instruction_set(), Round { x, blocks, out });
        });
    }

    fn few_fixed_rows<F: IntegerFormat>(&self, x: FixedRows<'_>) {
        let (panels, out) = (self.panels, self.out);
        // Each panel, and so each column, is handed out once.
        self.cpu.for_each(panels.count(), panels.grain(), |range| {
            let kernel = FewRows::<F> { panels, range, x, out, format: PhantomData };
            simd::dispatch(self.cpu.instruction_set(), kernel);
        });
    }

    fn many_fixed_rows<F: IntegerFormat>(&self, x: FixedRows<'_>) {
        let registers = registers(self.cpu.instruction_set());
        let (tile_rows, tile_panels) = (tile_rows(registers), tile_panels(registers));
        let strips = self.panels.count().div_ceil(tile_panels);
        let pieces = Pieces::new(strips, x.count().div_ceil(tile_rows), tile_rows, self.cpu.threads());
        let padded_in = self.panels.padded_in;
        let scratch = || Scratch { held: None, weights: Unpacked::new::<F>(tile_panels, padded_in) };
        self.cpu.for_each_with(pieces.count(), 1, scratch, |scratch, range| {
            for piece in range {
                let (strip, tiles) = pieces.piece(piece);
                let range = strip * tile_panels..self.panels.count().min((strip + 1) * tile_panels);
                let columns = range.start * LANES..self.panels.columns(range.end - 1).end;
                self.unpack::<F>(scratch, range);
                let (weights, out) = (&scratch.weights, self.out);
                let kernel =
                    ManyRows::<F> { x, tiles, weights, padded_in, columns, out, format: PhantomData };
                simd::dispatch(self.cpu.instruction_set(), kernel);
            }
        });
    }

    /// Unpacks the panels of `range`, unless the thread's last piece left them there.
    fn unpack<F: IntegerFormat>(&self, scratch: &mut Scratch, range: Range<usize>) {
        if scratch.held == Some(range.start) {
            return;
        }
        scratch.held = Some(range.start);
        let kernel =
            Unpack::<F> { panels: self.panels, range, out: &mut scratch.weights, format: PhantomData };
        simd::dispatch(self.cpu.instruction_set(), kernel);
    }
}

/// A thread's unpacked panels.
struct Scratch {
    held: Option<usize>,
    weights: Unpacked,
}
