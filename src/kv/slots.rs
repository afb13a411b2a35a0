//! [`StateStore`]: which sequence, and which cached prefix, holds which state slot.

use super::{BlockId, BlockPool, KvError, NodeId, PrefixCache};
use crate::ops::{KvArena, STATE_CHUNK, StateSlots};

/// Most slots a sequence of recurrent layers needs at once: the state it reads, the one it writes where the first is
/// shared, and its pending tokens.
pub const SLOTS_PER_SEQUENCE: usize = 3;

/// A state that a step writes.
#[derive(Debug, Clone, Copy)]
struct Target {
    position: usize,
    slot: BlockId,
    is_snapshot: bool,
}

/// A sequence's share of the state slots.
#[derive(Debug, Default)]
pub struct SequenceSlots {
    /// The states at the last multiple of 64 tokens; `None` before the first.
    state: Option<BlockId>,
    /// What the tokens since then left behind.
    pending: Option<BlockId>,
    /// States that the step under way writes, ascending; the last becomes `state`, and may be it already.
    targets: Vec<Target>,
}

impl SequenceSlots {
    /// The slots it holds between steps.
    pub fn held(&self) -> impl Iterator<Item = BlockId> {
        self.state.into_iter().chain(self.pending)
    }

    /// The slot of its state.
    pub fn state(&self) -> Option<BlockId> {
        self.state
    }

    /// The slot of its pending tokens.
    pub(super) fn pending(&self) -> Option<BlockId> {
        self.pending
    }

    /// Slots between steps.
    pub(super) fn holding(state: Option<BlockId>, pending: Option<BlockId>) -> Self {
        Self { state, pending, targets: Vec::new() }
    }
}

/// State slots with their owners. A state that the prefix cache lists, or that several sequences hold, is never written.
#[derive(Debug)]
pub(super) struct StateStore {
    pub pool: BlockPool,
    /// Where the prefix cache lists snapshots, behind the groups' blocks.
    place: usize,
    block_size: usize,
    /// Snapshots lie on multiples of this: of 64 tokens, and of whole blocks.
    unit: usize,
    /// Snapshots are made every so many tokens, wherever else they are made.
    interval: usize,
}

impl StateStore {
    /// `num_slots` free slots; snapshots every `interval` tokens, a multiple of `unit`.
    pub fn new(num_slots: usize, place: usize, block_size: usize, unit: usize, interval: usize) -> Self {
        Self { pool: BlockPool::new(num_slots), place, block_size, unit, interval }
    }

    /// Where the prefix cache lists snapshots.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Slots that [`Self::prepare`] would allocate for a sequence of `num_tokens` tokens that grows to `end`.
    pub fn needed(&self, slots: &SequenceSlots, num_tokens: usize, end: usize) -> usize {
        let pending = slots.pending.is_none_or(|slot| self.pool.references(slot) > 1);
        let crosses = end / STATE_CHUNK > num_tokens / STATE_CHUNK;
        let state = crosses && slots.state.is_none_or(|slot| !self.is_writable(slot));
        usize::from(pending) + usize::from(state)
    }

    /// Whether a sequence of `num_tokens` tokens can go on with these slots; else what it lacks.
    pub fn check_loaded(&self, slots: &SequenceSlots, num_tokens: usize) -> Result<(), &'static str> {
        if num_tokens >= STATE_CHUNK && slots.state.is_none() {
            return Err("a current state");
        }
        if !num_tokens.is_multiple_of(STATE_CHUNK) && slots.pending.is_none() {
            return Err("pending tokens");
        }
        Ok(())
    }

    fn is_writable(&self, slot: BlockId) -> bool {
        self.pool.references(slot) == 1 && !self.pool.is_cached(slot)
    }

    /// Gives the sequence what the step up to `end` writes: pending tokens of its own, and a slot for its next state.
    ///
    /// # Errors
    /// [`KvError::OutOfSlots`]; the caller has asked [`Self::needed`] before.
    pub fn prepare(
        &mut self,
        slots: &mut SequenceSlots,
        num_tokens: usize,
        end: usize,
        prefix: &mut PrefixCache,
        arena: &mut KvArena,
    ) -> Result<(), KvError> {
        self.drop_targets(slots);
        match slots.pending {
            Some(shared) if self.pool.references(shared) > 1 => {
                let copy = self.allocate(prefix)?;
                // At a multiple of 64 nothing is pending.
                if !num_tokens.is_multiple_of(STATE_CHUNK) {
                    arena.copy_slots(&[(shared, copy)])?;
                }
                self.pool.release(shared);
                slots.pending = Some(copy);
            }
            Some(_) => {}
            None => slots.pending = Some(self.allocate(prefix)?),
        }
        if end / STATE_CHUNK > num_tokens / STATE_CHUNK {
            let slot = match slots.state.filter(|&slot| self.is_writable(slot)) {
                Some(own) => own,
                None => self.allocate(prefix)?,
            };
            let position = end / STATE_CHUNK * STATE_CHUNK;
            slots.targets.push(Target { position, slot, is_snapshot: false });
        }
        Ok(())
    }

    /// A slot with one owner: a free one, or that of the cheapest snapshot that nobody references.
    ///
    /// # Errors
    /// [`KvError::OutOfSlots`].
    pub fn allocate(&mut self, prefix: &mut PrefixCache) -> Result<BlockId, KvError> {
        let total = self.pool.total();
        let (slot, evicted) =
            self.pool.allocate().ok_or(KvError::OutOfSlots { needed: 1, available: 0, total })?;
        if let Some((node, place)) = evicted {
            prefix.clear_block(node, place);
        }
        Ok(slot)
    }

    /// Asks the step up to `end` for snapshots: at the last place before each of `branch_points` (ascending or not), and
    /// at every interval. It takes what slots are left over, for the deepest places first.
    pub fn plan_snapshots(
        &mut self,
        slots: &mut SequenceSlots,
        num_tokens: usize,
        end: usize,
        branch_points: impl Iterator<Item = usize>,
        prefix: &mut PrefixCache,
    ) {
        let Some(last) = slots.targets.last().map(|target| target.position) else { return };
        let regular = (num_tokens / self.interval + 1..=end / self.interval).map(|n| n * self.interval);
        let mut places: Vec<usize> = branch_points
            .map(|point| point / self.unit * self.unit)
            .chain(regular)
            .filter(|&place| place / STATE_CHUNK > num_tokens / STATE_CHUNK && place <= last)
            .collect();
        places.sort_unstable();
        places.dedup();
        for position in places.into_iter().rev() {
            if let Some(target) = slots.targets.iter_mut().find(|target| target.position == position) {
                target.is_snapshot = true;
                continue;
            }
            let Ok(slot) = self.allocate(prefix) else { break };
            slots.targets.insert(0, Target { position, slot, is_snapshot: true });
        }
    }

    /// Which slots the step reads and writes.
    pub fn of_step(&self, slots: &SequenceSlots) -> Option<StateSlots> {
        Some(StateSlots {
            source: slots.state,
            targets: slots.targets.iter().map(|target| (target.position as u32, target.slot)).collect(),
            pending: slots.pending?,
        })
    }

    /// Records that the step's states are written. `path` names the sequence's nodes, the step's included.
    pub fn commit(&mut self, slots: &mut SequenceSlots, path: &[NodeId], prefix: &mut PrefixCache) {
        let targets = std::mem::take(&mut slots.targets);
        let Some(&last) = targets.last() else { return };
        if let Some(old) = slots.state.replace(last.slot).filter(|&old| old != last.slot) {
            self.pool.release(old);
        }
        for target in targets {
            if target.is_snapshot {
                self.list(target.slot, target.position, path, prefix);
            }
            if target.slot != last.slot {
                self.pool.release(target.slot);
            }
        }
    }

    /// Lists the state of a sequence of `num_tokens` tokens as a snapshot, where it lies `at` these tokens.
    pub fn list_state(
        &mut self,
        slots: &SequenceSlots,
        num_tokens: usize,
        at: usize,
        path: &[NodeId],
        prefix: &mut PrefixCache,
    ) {
        let position = num_tokens / STATE_CHUNK * STATE_CHUNK;
        // What a step under way has done to the state is not known.
        if let (Some(state), true) = (slots.state, slots.targets.is_empty())
            && at / self.unit * self.unit == position
        {
            self.list(state, position, path, prefix);
        }
    }

    /// Lists a state as the snapshot after `position` tokens of `path`, where there is none and snapshots may lie.
    pub fn list(&mut self, slot: BlockId, position: usize, path: &[NodeId], prefix: &mut PrefixCache) {
        let node = (position / self.block_size).checked_sub(1).and_then(|index| path.get(index).copied());
        let Some(node) = node.filter(|_| position.is_multiple_of(self.unit)) else { return };
        if prefix.block(node, self.place).is_none() && !self.pool.is_cached(slot) {
            prefix.set_block(node, self.place, slot);
            self.pool.set_cached(slot, node, self.place, prefix.depth(node));
        }
    }

    /// The snapshot that a prefix ends with.
    pub fn snapshot(&self, path: &[NodeId], prefix: &PrefixCache) -> Option<BlockId> {
        prefix.block(*path.last()?, self.place)
    }

    /// The slots of a sequence that starts from a snapshot.
    pub fn attach(&mut self, path: &[NodeId], prefix: &PrefixCache) -> SequenceSlots {
        let state = self.snapshot(path, prefix);
        if let Some(slot) = state {
            self.pool.retain(slot);
        }
        SequenceSlots { state, ..SequenceSlots::default() }
    }

    /// A second owner of what a sequence holds between steps.
    pub fn fork(&mut self, slots: &SequenceSlots) -> SequenceSlots {
        slots.held().for_each(|slot| self.pool.retain(slot));
        SequenceSlots { state: slots.state, pending: slots.pending, targets: Vec::new() }
    }

    /// Gives all slots back.
    pub fn free(&mut self, mut slots: SequenceSlots) {
        self.drop_targets(&mut slots);
        slots.held().for_each(|slot| self.pool.release(slot));
    }

    /// Takes back what a step was given that never came to its end.
    fn drop_targets(&mut self, slots: &mut SequenceSlots) {
        for target in slots.targets.drain(..) {
            if Some(target.slot) != slots.state {
                self.pool.release(target.slot);
            }
        }
    }
}
