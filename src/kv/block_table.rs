//! [`BlockTable`]: one sequence's blocks in one group.

use super::BlockId;

/// The blocks that hold a sequence's tokens, in order. Blocks behind a window leave at the front.
#[derive(Debug, Clone, Default)]
pub struct BlockTable {
    blocks: Vec<BlockId>,
    first_block: usize,
}

impl BlockTable {
    /// A table whose first block has index `first_block` in the sequence.
    pub fn starting_at(first_block: usize) -> Self {
        Self { blocks: Vec::new(), first_block }
    }

    /// Index in the sequence of the first block still held.
    pub fn first_block(&self) -> usize {
        self.first_block
    }

    /// One past the index of the last block held.
    pub fn end_block(&self) -> usize {
        self.first_block + self.blocks.len()
    }

    /// The blocks held, oldest first.
    pub fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// The block with this index in the sequence, while it is held.
    pub fn get(&self, index: usize) -> Option<BlockId> {
        index.checked_sub(self.first_block).and_then(|place| self.blocks.get(place).copied())
    }

    /// Appends the next block.
    pub fn push(&mut self, block: BlockId) {
        self.blocks.push(block);
    }

    /// Puts another block in the place of the one with this index; returns the one that was there.
    pub fn replace(&mut self, index: usize, block: BlockId) -> Option<BlockId> {
        let place = index.checked_sub(self.first_block)?;
        self.blocks.get_mut(place).map(|slot| std::mem::replace(slot, block))
    }

    /// Removes and returns the blocks before `index`.
    pub fn release_before(&mut self, index: usize) -> Vec<BlockId> {
        let count = index.saturating_sub(self.first_block).min(self.blocks.len());
        self.first_block += count;
        self.blocks.drain(..count).collect()
    }

    /// Removes and returns the blocks from `index` on.
    pub fn truncate(&mut self, index: usize) -> Vec<BlockId> {
        let keep = index.saturating_sub(self.first_block).min(self.blocks.len());
        self.blocks.split_off(keep)
    }
}
