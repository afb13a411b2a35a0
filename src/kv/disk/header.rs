//! [`Header`]: what a file says of itself.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{KvFileError, KvIdentity};
use crate::kv::KvPlan;

/// Consecutive blocks of one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PageRun {
    /// Index into [`KvPlan::groups`].
    pub group: usize,
    /// Index of the first block in the sequence.
    pub first: usize,
    /// How many.
    pub count: usize,
}

impl PageRun {
    pub fn blocks(&self) -> Range<usize> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// What a saved state slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StateRole {
    /// A state that sequences may start from.
    Snapshot,
    /// The sequence's own last state.
    Current,
    /// What its tokens since that state left behind.
    Pending,
}

/// A saved state slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedState {
    /// Tokens before it.
    pub position: usize,
    /// What it is.
    pub role: StateRole,
}

/// What a file holds, and what it is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    /// What its bytes depend on.
    pub identity: KvIdentity,
    /// Digest of the identity and of the tokens before `first_block`, hex.
    pub before: String,
    /// The block its tokens begin with.
    pub first_block: usize,
    /// Tokens of the sequence up to the file's end, those before `first_block` included.
    pub num_tokens: usize,
    /// Its pages.
    pub pages: Vec<PageRun>,
    /// Its states.
    pub states: Vec<SavedState>,
}

impl Header {
    /// Tokens in the file.
    pub fn tokens_in_file(&self) -> usize {
        self.num_tokens.saturating_sub(self.first_block.saturating_mul(self.identity.block_size))
    }

    /// Bytes of tokens, pages and states, once [`Self::check`] has passed.
    pub fn payload_bytes(&self, plan: &KvPlan) -> u64 {
        let pages: u64 = self
            .pages
            .iter()
            .map(|run| run.count as u64 * plan.groups[run.group].layout.page_bytes() as u64)
            .sum();
        let slot_bytes = plan.states.map_or(0, |states| states.slot_bytes()) as u64;
        self.tokens_in_file() as u64 * 4 + pages + self.states.len() as u64 * slot_bytes
    }

    /// Checks that a header that was read fits `identity` and `plan`.
    ///
    /// # Errors
    /// [`KvFileError::Identity`], or [`KvFileError::Format`] naming the field.
    pub fn check(&self, file: &Path, identity: &KvIdentity, plan: &KvPlan) -> Result<(), KvFileError> {
        if let Some((field, expected, found)) = identity.difference(&self.identity) {
            return Err(KvFileError::Identity { file: file.to_owned(), field, expected, found });
        }
        let wrong =
            |field, expected: String, found: usize| Err(KvFileError::format(file, field, expected, found));
        // More tokens than 32 bits count fit no file.
        if self.num_tokens > u32::MAX as usize {
            return wrong("num_tokens", format!("at most {}", u32::MAX), self.num_tokens);
        }
        let block_size = plan.block_size;
        let blocks = self.num_tokens.div_ceil(block_size);
        if self.first_block > self.num_tokens / block_size {
            let most = format!("at most {}, the complete blocks", self.num_tokens / block_size);
            return wrong("first_block", most, self.first_block);
        }
        for run in &self.pages {
            if run.group >= plan.groups.len() {
                return wrong("pages.group", format!("below {}", plan.groups.len()), run.group);
            }
            if run.count > blocks || run.first > blocks - run.count {
                return wrong("pages", format!("blocks up to {blocks}"), run.blocks().end);
            }
        }
        self.check_states(file, plan)
    }

    fn check_states(&self, file: &Path, plan: &KvPlan) -> Result<(), KvFileError> {
        if plan.states.is_none() && !self.states.is_empty() {
            return Err(KvFileError::format(file, "states", "none", self.states.len()));
        }
        for state in &self.states {
            if state.position > self.num_tokens {
                let expected = format!("at most {}", self.num_tokens);
                return Err(KvFileError::format(file, "states.position", expected, state.position));
            }
            let unit = plan.snapshot_unit();
            if state.role == StateRole::Snapshot && !state.position.is_multiple_of(unit) {
                let expected = format!("a multiple of {unit}");
                return Err(KvFileError::format(file, "states.position", expected, state.position));
            }
        }
        Ok(())
    }
}
