//! Tiles of query rows, and how registers part them.
use super::{Call, kernel::SPAN};
use crate::ops::InstructionSet;
use std::ops::Range;

/// Query rows of one sequence and kv head: packed row i is token i / group, query head i % group of the kv head's.
pub(super) struct Tile {
    pub(super) sequence: usize,
    pub(super) kv_head: usize,
    /// Packed rows before this tile's.
    first: usize,
    pub(super) rows: usize,
    /// Rows that the register tiles compute: those past `rows` are computed from zeros and dropped.
    pub(super) padded_rows: usize,
    /// Absolute positions that at least one row sees.
    pub(super) keys: Range<usize>,
}

impl Tile {
    pub(super) fn new(call: &Call<'_>, sequence: usize, kv_head: usize, first: usize, rows: usize) -> Self {
        let mut tile = Self { sequence, kv_head, first, rows, padded_rows: rows, keys: 0..0 };
        tile.padded_rows =
            register_rows(call.instruction_set, rows).map(|range| range.end).max().unwrap_or(0);
        tile.keys = tile.visible(call, 0).start..tile.visible(call, rows - 1).end;
        tile
    }

    /// Absolute positions that `row` of the tile sees.
    pub(super) fn visible(&self, call: &Call<'_>, row: usize) -> Range<usize> {
        let position = call.input.positions[self.token(call, row)] as usize;
        let start = call.input.window.map_or(0, |window| (position + 1).saturating_sub(window as usize));
        start..position + 1
    }

    /// The call's row of the tile's `row`.
    pub(super) fn token(&self, call: &Call<'_>, row: usize) -> usize {
        call.rows(self.sequence).start + (self.first + row) / call.group()
    }

    /// The query head of the tile's `row`.
    pub(super) fn query_head(&self, call: &Call<'_>, row: usize) -> usize {
        self.kv_head * call.group() + (self.first + row) % call.group()
    }

    /// The spans that its keys touch.
    pub(super) fn spans(&self) -> Range<usize> {
        self.keys.start / SPAN..self.keys.end.div_ceil(SPAN)
    }
}

/// Parts `rows` into the register tiles of an instruction set; the last may end past `rows`.
pub(super) fn register_rows(
    instruction_set: InstructionSet,
    rows: usize,
) -> impl Iterator<Item = Range<usize>> {
    let (most, sizes): (usize, &[usize]) = match instruction_set {
        InstructionSet::Avx512 => (12, &[1, 2, 3, 4, 6, 8, 12]),
        InstructionSet::Avx2 | InstructionSet::Portable => (6, &[1, 2, 3, 4, 6]),
    };
    (0..rows).step_by(most).map(move |start| {
        let left = rows - start;
        start..start + sizes.iter().copied().find(|&size| size >= left).unwrap_or(most)
    })
}
