//! Building the [`ForwardBatch`] of one step.

use super::SequenceId;
use super::load::Engine;
use crate::model::{ForwardBatch, GroupBatch, SequenceTable};

/// A sequence's share of a step: its tokens `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ScheduledChunk {
    pub id: SequenceId,
    pub start: usize,
    pub end: usize,
}

/// An output row, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputRow {
    pub id: SequenceId,
    /// The position whose next token the row's logits predict.
    pub position: usize,
}

impl Engine {
    /// Packs the scheduled chunks. The blocks they need are already in the tables.
    pub(super) fn build_batch(&self, chunks: &[ScheduledChunk]) -> (ForwardBatch, Vec<OutputRow>) {
        let num_groups = self.cache.plan().groups.len();
        let mut batch = ForwardBatch {
            cu_seqlens_q: vec![0],
            groups: vec![GroupBatch::default(); num_groups],
            ..ForwardBatch::default()
        };
        let mut rows = Vec::new();
        for &ScheduledChunk { id, start, end } in chunks {
            let sequence = &self.sequences[&id];
            let first_row = batch.token_ids.len();
            batch.token_ids.extend_from_slice(&sequence.tokens[start..end]);
            batch.positions.extend(start as u32..end as u32);
            batch.cu_seqlens_q.push(batch.token_ids.len() as u32);
            for position in sequence.wanted_positions(start, end) {
                batch.output_rows.push((first_row + position - start) as u32);
                rows.push(OutputRow { id, position });
            }
            for (g, group) in batch.groups.iter_mut().enumerate() {
                self.cache.slots(&sequence.cache, g, start, end, &mut group.slot_mapping);
                let table = &sequence.cache.tables()[g];
                group.block_tables.push(SequenceTable {
                    pages: table.blocks().to_vec(),
                    first_position: (table.first_block() * self.cache.plan().block_size) as u32,
                });
            }
            batch.recurrent.extend(self.cache.state_slots(&sequence.cache));
        }
        if batch.output_rows.is_empty() && !self.backend.takes_empty_rows() {
            // Its hidden state is computed and dropped.
            batch.output_rows.push(0);
        }
        (batch, rows)
    }
}
