//! Paged attention: which pieces of work there are, and how their results come together.
//!
//! The query rows of a kv head's group lie side by side in a tile, so that keys and values are read once for all of them. Long chunks
//! give many tiles, each of which walks over its spans and merges as it goes. Few tiles (decode) are split over their spans: the
//! partial results are kept and merged afterwards, in the same order by the same code, so the split does not show in the result.
mod kernel;
mod scratch;
mod softmax;
mod tile;

use super::{kv_element::KvElement, threads::SharedOutput};
use crate::ops::{AttentionInput, CpuBackend, InstructionSet, KvDtype};
use float8::F8E4M3;
use half::bf16;
use scratch::Scratch;
use softmax::Partial;
use std::ops::Range;
use tile::Tile;

/// Packed query rows a tile: enough that reading keys and values costs little beside the arithmetic, few enough for the cache.
const TILE_ROWS: usize = 96;

/// Below this many multiply-adds one thread does it: waking another takes longer.
const PARALLEL_WORK: usize = 1 << 20;

/// Partial results take at most this many floats (64 MiB); past it tiles are not split, and there are enough of them then.
pub(crate) const SPLIT_FLOATS: usize = 1 << 24;

pub(crate) use kernel::SPAN;

/// Floats that a thread works in at heads of `head_dim`, at most.
pub(crate) fn thread_floats(head_dim: usize) -> usize {
    let partial = Partial::floats(TILE_ROWS, head_dim.next_multiple_of(16));
    TILE_ROWS * (kernel::QUERY_STRIDE + kernel::SCORE_STRIDE) + 2 * partial
}

/// One call's work, checked.
pub(super) struct Call<'a> {
    input: &'a AttentionInput<'a>,
    q: &'a [f32],
    q_heads: usize,
    instruction_set: InstructionSet,
}

impl Call<'_> {
    fn group(&self) -> usize {
        self.q_heads / self.input.layout.kv_heads
    }

    fn value_stride(&self) -> usize {
        self.input.layout.value_stride()
    }

    /// Rows of the call that belong to `sequence`.
    fn rows(&self, sequence: usize) -> Range<usize> {
        self.input.cu_seqlens_q[sequence] as usize..self.input.cu_seqlens_q[sequence + 1] as usize
    }

    /// All tiles, those with more work first.
    fn tiles(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        for sequence in 0..self.input.sequences.len() {
            let rows = self.rows(sequence).len() * self.group();
            for kv_head in 0..self.input.layout.kv_heads {
                for first in (0..rows).step_by(TILE_ROWS) {
                    let rows = (rows - first).min(TILE_ROWS);
                    tiles.push(Tile::new(self, sequence, kv_head, first, rows));
                }
            }
        }
        tiles.sort_by_key(|tile| std::cmp::Reverse(tile.rows * tile.keys.len()));
        tiles
    }
}

/// Attends; `output` is `[rows, q_heads * dim]`. The caller has checked `input`.
pub(crate) fn paged_attention(
    cpu: &CpuBackend,
    input: &AttentionInput<'_>,
    q: &[f32],
    q_heads: usize,
    output: &mut [f32],
) {
    let call = Call { input, q, q_heads, instruction_set: cpu.instruction_set() };
    match input.layout.dtype {
        KvDtype::F32 => attend::<f32>(cpu, &call, output),
        KvDtype::Bf16 => attend::<bf16>(cpu, &call, output),
        KvDtype::Fp8 => attend::<F8E4M3>(cpu, &call, output),
    }
}

fn attend<E: KvElement>(cpu: &CpuBackend, call: &Call<'_>, output: &mut [f32]) {
    let tiles = call.tiles();
    let work: usize =
        tiles.iter().map(|tile| tile.rows * tile.keys.len() * call.input.layout.head_dim * 2).sum();
    let floats: usize = tiles
        .iter()
        .map(|tile| tile.spans().len() * Partial::floats(tile.padded_rows, call.value_stride()))
        .sum();
    let output = SharedOutput::new(output);
    let in_parallel = work >= PARALLEL_WORK && cpu.threads() > 1;
    if in_parallel && tiles.len() < 4 * cpu.threads() && floats <= SPLIT_FLOATS {
        return attend_split::<E>(cpu, call, &tiles, floats, &output);
    }
    let grain = if in_parallel { 1 } else { tiles.len() };
    let scratch = || Scratch::<E>::new(call, padded_rows(&tiles));
    cpu.for_each_with(tiles.len(), grain, scratch, |scratch, range| {
        for tile in &tiles[range] {
            scratch.load_queries(call, tile);
            scratch.start(tile);
            for span in tile.spans() {
                scratch.compute_span_aside(call, tile, span);
                scratch.merge_aside(call, tile);
            }
            scratch.finish(call, tile, &output);
        }
    });
}

/// Rows of the largest tile, as registers take them.
fn padded_rows(tiles: &[Tile]) -> usize {
    tiles.iter().map(|tile| tile.padded_rows).max().unwrap_or(0)
}

/// As the loop over tiles, with the spans of a tile shared out over threads.
fn attend_split<E: KvElement>(
    cpu: &CpuBackend,
    call: &Call<'_>,
    tiles: &[Tile],
    floats: usize,
    output: &SharedOutput<'_, f32>,
) {
    let mut partials = vec![0.0; floats];
    let mut pieces = Vec::new();
    let mut offset = 0;
    for (index, tile) in tiles.iter().enumerate() {
        let size = Partial::floats(tile.padded_rows, call.value_stride());
        for span in tile.spans() {
            pieces.push((index, span, offset..offset + size));
            offset += size;
        }
    }
    let shared = SharedOutput::new(&mut partials);
    let grain = pieces.len().div_ceil(8 * cpu.threads());
    cpu.for_each_with(
        pieces.len(),
        grain,
        || Scratch::<E>::new(call, padded_rows(tiles)),
        |scratch, range| {
            let mut loaded = None;
            for (index, span, place) in &pieces[range] {
                if loaded != Some(*index) {
                    scratch.load_queries(call, &tiles[*index]);
                    loaded = Some(*index);
                }
                // SAFETY: the places of different pieces do not overlap, and each piece is computed once.
                let buffer = unsafe { shared.slice(place.clone()) };
                scratch.compute_span(
                    call,
                    &tiles[*index],
                    *span,
                    Partial::over(buffer, tiles[*index].padded_rows),
                );
            }
        },
    );
    let mut scratch = Scratch::<E>::new(call, padded_rows(tiles));
    let mut piece = pieces.iter().peekable();
    for (index, tile) in tiles.iter().enumerate() {
        scratch.start(tile);
        while let Some((_, _, place)) = piece.next_if(|(of, _, _)| *of == index) {
            scratch.merge(call, tile, Partial::over(&mut partials[place.clone()], tile.padded_rows));
        }
        scratch.finish(call, tile, output);
    }
}
