//! [`Request`] and [`Completion`].

use sha2::{Digest, Sha256};

use crate::chat::Adaptation;
use crate::decode::{ChoiceScores, Grammar, SamplingParams};

/// One piece of work.
#[derive(Debug, Clone)]
pub struct Request {
    /// The prompt's tokens, BOS included.
    pub prompt: Vec<u32>,
    /// Prompt positions where branches are likely to start (message ends), ascending; the cache keeps windows before them
    /// longer, and snapshots of recurrent states.
    pub boundaries: Vec<usize>,
    /// Whether it goes before those that wait: its prompt was just computed for another request, and is in the cache
    /// until one of them takes the blocks.
    pub is_follow_up: bool,
    /// How the prompt's rendering was adapted; kept for records, computed nowhere.
    pub adaptations: Vec<Adaptation>,
    /// What to do after the prompt.
    pub kind: RequestKind,
}

impl Request {
    /// A request without known boundaries.
    pub fn new(prompt: Vec<u32>, kind: RequestKind) -> Self {
        Self { prompt, boundaries: Vec::new(), is_follow_up: false, adaptations: Vec::new(), kind }
    }

    /// Digest of all that the result depends on, given the model.
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        for token in &self.prompt {
            hasher.update(token.to_le_bytes());
        }
        hasher.update(format!("{:?}", self.kind));
        hasher.finalize().into()
    }
}

/// What follows the prompt.
#[derive(Debug, Clone)]
pub enum RequestKind {
    /// Generate tokens.
    Generate(GenerateParams),
    /// Score continuations, each on a fork of the prefilled prompt.
    Score {
        /// Token continuations, none of them empty.
        continuations: Vec<Vec<u32>>,
    },
    /// The final hidden state (after the last norm) of the prompt's last token: what embedding models pool.
    Hidden,
    /// Log-probabilities of the next token at prompt positions.
    Logits {
        /// Prompt positions, ascending.
        positions: Vec<usize>,
        /// Most likely ids kept at each.
        top: usize,
    },
}

/// How to generate.
#[derive(Debug, Clone, Default)]
pub struct GenerateParams {
    /// Most new tokens.
    pub max_tokens: usize,
    /// How tokens are chosen.
    pub sampling: SamplingParams,
    /// Strings that end the output, which is cut before them.
    pub stop_strings: Vec<String>,
    /// Goes on past the model's stop ids.
    pub ignore_eos: bool,
    /// What the output must look like, and from where on.
    pub grammar: Option<(Grammar, GrammarStart)>,
    /// Records the log-probability of each new token.
    pub logprobs: bool,
}

/// From where on a grammar holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrammarStart {
    /// From the first token.
    Immediately,
    /// Once the output contains this text (the end of the reasoning).
    After(String),
}

/// Names a submitted request, in order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// Why generation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// A stop id, a stop string, or a complete grammar.
    Stop,
    /// `max_tokens` or the context's end: the output is cut off.
    Length,
}

/// A finished request.
#[derive(Debug, Clone)]
pub struct Completion {
    /// Which.
    pub id: SequenceId,
    /// What came of it.
    pub output: RequestOutput,
    /// Prompt tokens found in the cache when it was first admitted.
    pub cached_tokens: usize,
    /// Prompt tokens computed for it, recomputation after preemption included; 0 where an identical request ran.
    pub prefilled_tokens: usize,
    /// Seconds from submission to the end.
    pub seconds: f64,
}

/// A result by kind of request.
#[derive(Debug, Clone)]
pub enum RequestOutput {
    /// Of [`RequestKind::Generate`].
    Generated {
        /// New tokens, the stop id excluded.
        token_ids: Vec<u32>,
        /// Their text, cut before a stop string; empty where the model has no tokenizer.
        text: String,
        /// Why it ended.
        finish_reason: FinishReason,
        /// Natural log-probability of each new token, before temperature and grammar; empty unless asked for.
        logprobs: Vec<f32>,
    },
    /// Of [`RequestKind::Score`].
    Scored(ChoiceScores),
    /// Of [`RequestKind::Hidden`]: `[hidden_size]`.
    Hidden(Vec<f32>),
    /// Of [`RequestKind::Logits`].
    Logits(Vec<PositionLogprobs>),
    /// The request failed by itself (a grammar that cannot be compiled, say); others go on.
    Failed(String),
}

/// The most likely next tokens after one position.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct PositionLogprobs {
    /// Prompt position.
    pub position: usize,
    /// Token ids, most likely first.
    pub ids: Vec<u32>,
    /// Their natural log-probabilities.
    pub logprobs: Vec<f32>,
}
