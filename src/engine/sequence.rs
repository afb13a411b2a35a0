//! [`SequenceState`]: one sequence on its way through the engine.

use std::collections::HashMap;
use std::time::Instant;

use super::generation::Generation;
use super::{PositionLogprobs, SequenceId};
use crate::kv::SequenceCache;

/// Where a sequence stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SequenceStatus {
    /// Holds no blocks; admission will look for its prefix.
    Waiting,
    /// Holds blocks and is computed step by step.
    Running,
    /// All known tokens are computed; a session or forks will go on from here.
    Held,
}

/// What a sequence is computed for.
pub(super) enum Goal {
    /// New tokens.
    Generate(Box<Generation>),
    /// The first tokens of continuations; longer ones become forks.
    Score(ScoreState),
    /// One continuation of `parent`, on its own fork.
    Continuation(ContinuationState),
    /// Log-probabilities at prompt positions.
    Logits {
        /// Wanted positions, ascending.
        positions: Vec<usize>,
        /// Ids kept at each.
        top: usize,
        /// What is there so far.
        found: Vec<PositionLogprobs>,
    },
    /// The last token's hidden state.
    Hidden,
    /// Keys and values for a session.
    Hold,
}

/// A scored request: its continuations and what is known of them.
pub(super) struct ScoreState {
    /// Token continuations.
    pub continuations: Vec<Vec<u32>>,
    /// Log-probability of each token so far.
    pub logprobs: Vec<Vec<f32>>,
    /// Forks still running.
    pub forks_left: usize,
}

/// One continuation on a fork.
pub(super) struct ContinuationState {
    /// The scored request.
    pub parent: SequenceId,
    /// Which of its continuations.
    pub index: usize,
    /// The token expected after each position from the prompt's length on.
    pub targets: Vec<u32>,
    /// Log-probabilities found so far, in order.
    pub logprobs: Vec<f32>,
}

/// One sequence: its tokens, its share of the cache, and what it is for.
pub(super) struct SequenceState {
    /// Prompt and generated tokens.
    pub tokens: Vec<u32>,
    /// Tokens of the prompt.
    pub prompt_len: usize,
    /// Blocks; empty while waiting.
    pub cache: SequenceCache,
    /// Where it stands.
    pub status: SequenceStatus,
    /// What it is for.
    pub goal: Goal,
    /// Blocks that admission promised it.
    pub reserved_blocks: usize,
    /// Positions where branches are likely, ascending, those already marked removed.
    pub boundaries: Vec<usize>,
    /// The last of these before the prompt's end that was marked.
    pub last_boundary: Option<usize>,
    /// Prompt tokens found in the cache at first admission.
    pub cached_tokens: Option<usize>,
    /// Prompt tokens computed.
    pub prefilled_tokens: usize,
    /// Shared prefix with other sequences, in tokens, once compared.
    pub common_prefix: HashMap<SequenceId, usize>,
    /// When it was submitted.
    pub submitted: Instant,
}

impl SequenceState {
    /// A waiting sequence.
    pub fn new(prompt: Vec<u32>, boundaries: Vec<usize>, goal: Goal) -> Self {
        Self {
            prompt_len: prompt.len(),
            tokens: prompt,
            cache: SequenceCache::default(),
            status: SequenceStatus::Waiting,
            goal,
            reserved_blocks: 0,
            boundaries,
            last_boundary: None,
            cached_tokens: None,
            prefilled_tokens: 0,
            common_prefix: HashMap::new(),
            submitted: Instant::now(),
        }
    }

    /// Tokens whose keys and values are computed.
    pub fn num_computed(&self) -> usize {
        self.cache.num_tokens()
    }

    /// Tokens still to compute.
    pub fn num_remaining(&self) -> usize {
        self.tokens.len() - self.num_computed()
    }

    /// Blocks it holds.
    pub fn num_blocks(&self) -> usize {
        self.cache.tables().iter().map(|table| table.blocks().len()).sum()
    }

    /// State slots it holds.
    pub fn num_slots(&self) -> usize {
        self.cache.slots().held().count()
    }

    /// Tokens that admission makes room for: the prompt, and the output up to `most_reserved` tokens.
    pub fn tokens_to_reserve(&self, most_reserved: usize) -> usize {
        let output = match &self.goal {
            Goal::Generate(generation) => generation.params.max_tokens.min(most_reserved),
            _ => 0,
        };
        self.tokens.len() + output
    }

    /// Positions within `start..end` whose logits the goal needs.
    pub fn wanted_positions(&self, start: usize, end: usize) -> Vec<usize> {
        let within = |position: &usize| (start..end).contains(position);
        match &self.goal {
            Goal::Generate(_) | Goal::Score(_) | Goal::Hidden => {
                Some(self.tokens.len() - 1).filter(within).into_iter().collect()
            }
            Goal::Continuation(state) => {
                let first = self.prompt_len + state.logprobs.len();
                (first.max(start)..end).collect()
            }
            Goal::Logits { positions, .. } => positions.iter().copied().filter(within).collect(),
            Goal::Hold => Vec::new(),
        }
    }

    /// How many leading tokens admission may look up in the cache: a token whose logits are wanted must be
    /// computed, and the last of the looked-up tokens always is.
    pub fn reusable_tokens(&self) -> &[u32] {
        let first_wanted = match &self.goal {
            Goal::Logits { positions, found, .. } => positions.get(found.len()).copied(),
            Goal::Continuation(state) => Some(self.prompt_len + state.logprobs.len()),
            Goal::Generate(_) | Goal::Score(_) | Goal::Hidden | Goal::Hold => None,
        };
        let end = first_wanted.map_or(self.tokens.len(), |position| position + 1);
        &self.tokens[..end.min(self.tokens.len())]
    }

    /// Whether its output rows are wanted as hidden states, not as logits.
    pub fn wants_hidden(&self) -> bool {
        matches!(self.goal, Goal::Hidden)
    }

    /// Whether this is a fork that scores a continuation for `parent`.
    pub fn continues(&self, parent: SequenceId) -> bool {
        matches!(&self.goal, Goal::Continuation(state) if state.parent == parent)
    }
}
