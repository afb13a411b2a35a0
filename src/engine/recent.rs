//! [`RecentCompletions`]: answers that a repeated request gets without running again.

use std::collections::{HashMap, VecDeque};

use super::Completion;

/// Completions kept; their outputs are short beside prompts.
const CAPACITY: usize = 4096;

/// The last finished requests by digest, oldest forgotten first.
#[derive(Default)]
pub(super) struct RecentCompletions {
    by_digest: HashMap<[u8; 32], Completion>,
    order: VecDeque<[u8; 32]>,
}

impl RecentCompletions {
    pub fn get(&self, digest: &[u8; 32]) -> Option<&Completion> {
        self.by_digest.get(digest)
    }

    pub fn insert(&mut self, digest: [u8; 32], completion: Completion) {
        if self.by_digest.insert(digest, completion).is_none() {
            self.order.push_back(digest);
        }
        if self.order.len() > CAPACITY
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_digest.remove(&oldest);
        }
    }
}
