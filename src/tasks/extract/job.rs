//! [`ExtractJob`]: all user turns of one history.

use super::parse::{ExtractionLimits, ExtractionParse, FoundConstraint, parse_answer, parse_paper};
use super::prompt::{Turn, TurnPrompt};
use super::registry::ConstraintRegistry;
use crate::chat::harmony::Recovery;
use crate::engine::{FinishReason, Request};
use crate::history::{Message, Role};
use crate::tasks::generation::read_generated;
use crate::tasks::text::{last_tokens, written_text};
use crate::tasks::{
    Generated, GenerationSettings, Job, JobStep, RequestFailure, RequestResult, TaskContext, Usage,
    generate_request,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How an extraction runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractSettings {
    /// How the model generates, for one turn.
    pub generation: GenerationSettings,
    /// How answers are read.
    pub parse: ExtractionParse,
    /// The grammar's bounds, for [`ExtractionParse::Grammar`]; `None`: [`ExtractionLimits::for_tokens`] of the most
    /// new tokens.
    pub limits: Option<ExtractionLimits>,
    /// Tokens of the assistant message that are shown: its last ones.
    pub assistant_tokens: usize,
}

impl Default for ExtractSettings {
    fn default() -> Self {
        Self {
            generation: GenerationSettings::default(),
            parse: ExtractionParse::default(),
            limits: None,
            assistant_tokens: 2_000,
        }
    }
}

impl ExtractSettings {
    fn limits(&self) -> ExtractionLimits {
        self.limits.unwrap_or_else(|| ExtractionLimits::for_tokens(self.generation.max_tokens))
    }
}

/// Why a turn yielded nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TurnFailure {
    /// The answer was cut off at its token limit.
    #[error("the answer was cut off")]
    CutOff,
    /// The reasoning never ended.
    #[error("the reasoning was not finished")]
    UnfinishedReasoning,
    /// The answer is not of the asked shape.
    #[error("the answer cannot be read: {answer:?}")]
    Unparseable {
        /// The answer.
        answer: String,
    },
    /// There is no answer.
    #[error(transparent)]
    Request {
        /// Why.
        #[from]
        failure: RequestFailure,
    },
}

/// What happened in one user turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Index of the user message in the history, from 0.
    pub message: usize,
    /// Constraints the answer named.
    pub found: usize,
    /// Of these, added to the registry (the others were exact duplicates).
    pub added: usize,
    /// Why nothing was read, where that is so.
    pub failure: Option<TurnFailure>,
    /// Where the output broke its format, and how it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// What it cost.
    pub usage: Usage,
}

/// A history's constraints, and how each turn went.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Extraction {
    /// The constraints.
    pub registry: ConstraintRegistry,
    /// One a user turn, in order.
    pub turns: Vec<TurnRecord>,
}

impl Extraction {
    /// Turns that failed.
    pub fn failed_turns(&self) -> usize {
        self.turns.iter().filter(|turn| turn.failure.is_some()).count()
    }
}

/// Extracts a history's constraints, one user turn after another.
pub struct ExtractJob {
    history: Arc<[Message]>,
    prompt: Arc<dyn TurnPrompt>,
    settings: ExtractSettings,
    /// The next message to look at.
    next: usize,
    /// The turn an answer is awaited for.
    waiting: Option<usize>,
    extraction: Extraction,
}

impl ExtractJob {
    /// Begins with an empty registry.
    pub fn new(history: Arc<[Message]>, prompt: Arc<dyn TurnPrompt>, settings: ExtractSettings) -> Self {
        Self { history, prompt, settings, next: 0, waiting: None, extraction: Extraction::default() }
    }

    /// What has been found so far.
    pub fn so_far(&self) -> &Extraction {
        &self.extraction
    }

    /// User turns of the whole history.
    pub fn num_turns(&self) -> usize {
        let is_turn =
            |message: &&Message| message.role == Role::User && !written_text(message).trim().is_empty();
        self.history.iter().filter(is_turn).count()
    }

    /// The next message in which the user wrote something.
    fn next_turn(&mut self) -> Option<(usize, String)> {
        while self.next < self.history.len() {
            let index = self.next;
            self.next += 1;
            if self.history[index].role == Role::User {
                let text = written_text(&self.history[index]);
                if !text.trim().is_empty() {
                    return Some((index, text));
                }
            }
        }
        None
    }

    fn request(
        &self,
        context: &TaskContext<'_>,
        index: usize,
        user_message: &str,
    ) -> Result<Request, RequestFailure> {
        let before = self.history[..index]
            .iter()
            .rev()
            .find(|message| message.role == Role::Assistant)
            .map(written_text);
        let assistant_message = match before.filter(|text| !text.trim().is_empty()) {
            None => None,
            Some(text) => Some(
                last_tokens(context.tokenizer, &text, self.settings.assistant_tokens)
                    .map_err(|error| RequestFailure::Prompt { message: error.to_string() })?,
            ),
        };
        let turn = Turn {
            user_message,
            assistant_message: assistant_message.as_deref(),
            registry: &self.extraction.registry,
        };
        let grammar = match self.settings.parse {
            ExtractionParse::Grammar => Some(self.settings.limits().grammar()),
            ExtractionParse::Paper => None,
        };
        generate_request(context, &self.prompt.messages(&turn), &self.settings.generation, grammar)
    }

    fn read(&self, generated: &Generated) -> Result<Vec<FoundConstraint>, TurnFailure> {
        if generated.unfinished_reasoning {
            return Err(TurnFailure::UnfinishedReasoning);
        }
        let is_cut_off = generated.finish_reason == FinishReason::Length;
        let found = match self.settings.parse {
            // Under the grammar a cut-off answer is never whole, so nothing is guessed from its first part.
            ExtractionParse::Grammar if is_cut_off => None,
            ExtractionParse::Grammar => parse_answer(&generated.answer),
            ExtractionParse::Paper => parse_paper(&generated.answer),
        };
        found.ok_or_else(|| {
            if is_cut_off {
                TurnFailure::CutOff
            } else {
                TurnFailure::Unparseable { answer: generated.answer.clone() }
            }
        })
    }

    fn record(
        &mut self,
        message: usize,
        result: Result<Vec<FoundConstraint>, TurnFailure>,
        recoveries: Vec<Recovery>,
        usage: Usage,
    ) {
        let mut record = TurnRecord { message, found: 0, added: 0, failure: None, recoveries, usage };
        match result {
            Ok(found) => {
                record.found = found.len();
                let user_message = written_text(&self.history[message]);
                record.added = self.extraction.registry.add(found, message, &user_message);
            }
            Err(failure) => record.failure = Some(failure),
        }
        self.extraction.turns.push(record);
    }
}

impl Job for ExtractJob {
    type Output = Extraction;

    fn advance(&mut self, context: &TaskContext<'_>, previous: Option<RequestResult>) -> JobStep<Extraction> {
        if let (Some(message), Some(result)) = (self.waiting.take(), previous) {
            match read_generated(context, &self.settings.generation, result) {
                Ok(generated) => {
                    let found = self.read(&generated);
                    self.record(message, found, generated.recoveries, generated.usage);
                }
                Err(failure) => self.record(message, Err(failure.into()), Vec::new(), Usage::default()),
            }
        }
        while let Some((index, user_message)) = self.next_turn() {
            match self.request(context, index, &user_message) {
                Ok(request) => {
                    self.waiting = Some(index);
                    return JobStep::Submit(request);
                }
                Err(failure) => self.record(index, Err(failure.into()), Vec::new(), Usage::default()),
            }
        }
        JobStep::Done(std::mem::take(&mut self.extraction))
    }
}
