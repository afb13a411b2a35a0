//! The gated delta rule: sequences and key heads are shared out over threads; a head walks over its chunks in order.
mod product;
mod segment;

use super::{simd::dispatch, state::LayerSlots, threads::SharedOutput};
use crate::ops::{CpuBackend, KvArena, RecurrentBatch, state_layout::STATE_CHUNK, tensors::filled_by};
use segment::{Scratch, Segment};

/// Below this many multiply-adds one thread does it: waking another takes longer.
const PARALLEL_WORK: usize = 1 << 16;

/// The rows of all tokens, and the parameters of all heads.
pub(crate) struct Rows<'a> {
    /// `[tokens, channels]`.
    pub(crate) qkv: &'a [f32],
    /// `[tokens, value_heads]`.
    pub(crate) beta: &'a [f32],
    /// `[tokens, value_heads]`.
    pub(crate) decay: &'a [f32],
    /// `[value_heads]`.
    pub(crate) a_log: &'a [f32],
    /// `[value_heads]`.
    pub(crate) dt_bias: &'a [f32],
}

/// The caller has checked the batch and the shapes.
pub(crate) fn gated_delta(
    cpu: &CpuBackend,
    rows: &Rows<'_>,
    batch: &RecurrentBatch<'_>,
    arena: &mut KvArena,
) -> Vec<f32> {
    let shape = &batch.layout.shape;
    let tokens = batch.positions.len();
    let slots = LayerSlots::new(batch, arena);
    let items = batch.sequences.len() * shape.key_heads;
    let work = tokens * 4 * shape.key_dim * shape.value_heads * shape.value_dim;
    let grain = if work < PARALLEL_WORK { items } else { 1 };
    let write = |output: &mut [f32]| {
        let output = SharedOutput::new(output);
        cpu.for_each_with(
            items,
            grain,
            || Scratch::new(shape),
            |scratch, range| {
                for item in range {
                    let (sequence, key_head) = (item / shape.key_heads, item % shape.key_heads);
                    let head = Head { cpu, rows, batch, slots: &slots, output: &output, sequence, key_head };
                    head.run(scratch);
                }
            },
        );
    };
    // SAFETY: every token belongs to a sequence, and every value head to a key head, which stores its elements.
    unsafe { filled_by(tokens * shape.value_heads * shape.value_dim, write) }
}

/// One key head of one sequence, with the value heads that share it.
struct Head<'a> {
    cpu: &'a CpuBackend,
    rows: &'a Rows<'a>,
    batch: &'a RecurrentBatch<'a>,
    slots: &'a LayerSlots<'a>,
    output: &'a SharedOutput<'a, f32>,
    sequence: usize,
    key_head: usize,
}

impl Head<'_> {
    fn run(&self, scratch: &mut Scratch) {
        let (rows, first) = self.batch.rows(self.sequence);
        let states = &self.batch.sequences[self.sequence];
        let last = states.targets.last().map(|&(_, slot)| slot);
        let mut state = states.source;
        let (mut row, mut position) = (rows.start, first);
        while row < rows.end {
            let done = position % STATE_CHUNK;
            let count = (STATE_CHUNK - done).min(rows.end - row);
            let segment = Segment {
                rows: self.rows,
                shape: &self.batch.layout.shape,
                slots: self.slots,
                output: self.output,
                key_head: self.key_head,
                first_row: row,
                count,
                done,
                pending: states.pending,
                source: state,
                // The last target's slot carries the state from chunk to chunk.
                target: last.filter(|_| done + count == STATE_CHUNK),
            };
            dispatch(self.cpu.instruction_set(), segment.on(scratch));
            (row, position) = (row + count, position + count);
            if let (Some(carried), true) = (last, position.is_multiple_of(STATE_CHUNK)) {
                state = Some(carried);
                self.keep_snapshot(position, carried);
            }
        }
    }

    /// Copies the carried state to the slot that asked for this position, where that is another one.
    fn keep_snapshot(&self, position: usize, carried: u32) {
        let shape = &self.batch.layout.shape;
        let targets = &self.batch.sequences[self.sequence].targets;
        let wanted = targets.iter().find(|&&(target, slot)| target as usize == position && slot != carried);
        let Some(&(_, slot)) = wanted else { return };
        for value_head in shape.value_heads_of(self.key_head) {
            let (start, end) = (shape.head_state(value_head), shape.head_state(value_head + 1));
            // SAFETY: this key head alone holds its value heads' states, and written slots belong to one sequence.
            unsafe {
                let from = self.slots.slice(carried, start, end - start);
                self.slots.slice_mut(slot, start, end - start).copy_from_slice(from);
            }
        }
    }
}
