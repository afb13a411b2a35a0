//! [`ForwardBatch`]: what one forward pass computes, made by the scheduler and handed to the model explicitly.

use crate::ops::{StateSlots, StepRows};

/// One sequence's blocks in one group.
#[derive(Debug, Clone, Default)]
pub struct SequenceTable {
    /// The page of each block, in order.
    pub pages: Vec<u32>,
    /// Absolute position of the first block's first token.
    pub first_position: u32,
}

/// What a batch needs of one KV group.
#[derive(Debug, Clone, Default)]
pub struct GroupBatch {
    /// `[tokens]`: where each token's keys and values go (`page * block_size + offset`).
    pub slot_mapping: Vec<u64>,
    /// `[sequences]`: the block tables, as they are after the batch's tokens got their blocks.
    pub block_tables: Vec<SequenceTable>,
}

/// A packed batch: prefill chunks and decode tokens of several sequences.
#[derive(Debug, Clone, Default)]
pub struct ForwardBatch {
    /// `[tokens]`.
    pub token_ids: Vec<u32>,
    /// `[tokens]`: absolute positions, ascending within a sequence.
    pub positions: Vec<u32>,
    /// `[sequences + 1]`: where each sequence's tokens begin.
    pub cu_seqlens_q: Vec<u32>,
    /// One entry a KV group.
    pub groups: Vec<GroupBatch>,
    /// `[sequences]`: the state slots of recurrent layers; empty for models without any.
    pub recurrent: Vec<StateSlots>,
    /// Rows whose hidden states the caller wants, ascending.
    pub output_rows: Vec<u32>,
}

/// Query rows of a batch: all of them, or only those that produce an output.
#[derive(Debug, Clone)]
pub struct QueryRows {
    /// `[sequences + 1]`.
    pub cu_seqlens_q: Vec<u32>,
    /// `[rows]`.
    pub positions: Vec<u32>,
}

impl QueryRows {
    /// As the operations take them.
    pub fn as_step(&self) -> StepRows<'_> {
        StepRows { cu_seqlens_q: &self.cu_seqlens_q, positions: &self.positions }
    }
}

impl ForwardBatch {
    /// Tokens in the batch.
    pub fn num_tokens(&self) -> usize {
        self.token_ids.len()
    }

    /// All rows as queries.
    pub fn all_rows(&self) -> QueryRows {
        QueryRows { cu_seqlens_q: self.cu_seqlens_q.clone(), positions: self.positions.clone() }
    }

    /// The output rows alone as queries, with the offsets of each sequence's share of them.
    pub fn selected_rows(&self) -> QueryRows {
        let cu_seqlens_q = self
            .cu_seqlens_q
            .iter()
            .map(|&start| self.output_rows.partition_point(|&row| row < start) as u32)
            .collect();
        let positions = self.output_rows.iter().map(|&row| self.positions[row as usize]).collect();
        QueryRows { cu_seqlens_q, positions }
    }
}
