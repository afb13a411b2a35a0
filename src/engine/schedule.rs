//! What one step computes.

use super::batch::ScheduledChunk;
use super::load::Engine;
use super::sequence::{SequenceState, SequenceStatus};
use super::{EngineError, SequenceId};
use crate::kv::{KvError, SequenceCache};

impl Engine {
    /// Chooses chunks within the token budget and makes room for them: the oldest sequence first, so that there is
    /// always progress; then sequences with one token left (decode); then prefills by age; then newly admitted ones.
    pub(super) fn schedule(&mut self) -> Result<Vec<ScheduledChunk>, EngineError> {
        let mut chunks: Vec<ScheduledChunk> = Vec::new();
        let mut budget = self.options.max_batch_tokens;
        let mut order = self.running.clone();
        if order.len() > 1 {
            order[1..].sort_by_key(|id| (self.sequences[id].num_remaining() > 1, *id));
        }
        for id in order {
            self.schedule_one(id, &mut budget, &mut chunks)?;
        }
        if budget > 0 {
            for id in self.admit()? {
                self.schedule_one(id, &mut budget, &mut chunks)?;
            }
        }
        for &ScheduledChunk { id, end, .. } in &chunks {
            if let Some(SequenceState { cache, boundaries, prompt_len, .. }) = self.sequences.get_mut(&id) {
                // The same prompt again, and one that goes on where it ends, both start from its end.
                let ends = [prompt_len.saturating_sub(1), *prompt_len];
                self.cache.plan_snapshots(cache, end, boundaries.iter().copied().chain(ends));
            }
        }
        Ok(chunks)
    }

    fn schedule_one(
        &mut self,
        id: SequenceId,
        budget: &mut usize,
        chunks: &mut Vec<ScheduledChunk>,
    ) -> Result<(), EngineError> {
        loop {
            let Some(sequence) = self.sequences.get_mut(&id) else { return Ok(()) };
            let size = sequence.num_remaining().min(*budget);
            // A sequence preempted for an older one within this very step is not running any more.
            if size == 0 || sequence.status != SequenceStatus::Running {
                return Ok(());
            }
            let start = sequence.num_computed();
            match self.cache.prepare_append(&mut sequence.cache, start + size) {
                Ok(()) => {
                    chunks.push(ScheduledChunk { id, start, end: start + size });
                    *budget -= size;
                    return Ok(());
                }
                Err(KvError::OutOfBlocks { .. } | KvError::OutOfSlots { .. }) => {
                    match self.victim(id, chunks) {
                        Some(victim) => self.preempt(victim),
                        None => return Ok(()),
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The youngest running sequence that is not in this step and not older than `id`; `id` itself when all
    /// younger ones are in the step, but never the oldest.
    fn victim(&self, id: SequenceId, chunks: &[ScheduledChunk]) -> Option<SequenceId> {
        let scheduled = |other: &SequenceId| chunks.iter().any(|chunk| chunk.id == *other);
        let oldest = self.running.first().copied();
        self.running
            .iter()
            .rev()
            .copied()
            .find(|other| *other >= id && Some(*other) != oldest && !scheduled(other))
    }

    /// Takes a sequence's blocks away. It waits, in its old place, to be computed again.
    pub(super) fn preempt(&mut self, id: SequenceId) {
        let Some(sequence) = self.sequences.get_mut(&id) else { return };
        self.cache.free(std::mem::take::<SequenceCache>(&mut sequence.cache));
        sequence.status = SequenceStatus::Waiting;
        self.running.retain(|other| *other != id);
        let place = self.waiting.partition_point(|other| *other < id);
        self.waiting.insert(place, id);
        self.stats.preemptions += 1;
    }
}
