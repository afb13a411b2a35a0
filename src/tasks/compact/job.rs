//! [`CompactJob`]: one compactor on one history.

use super::lingua::{Compression, CompressionStep, LinguaError, LlmLingua2};
use super::select;
use super::spec::{CompactorKind, CompactorSpec};
use crate::chat::harmony::Recovery;
use crate::engine::FinishReason;
use crate::history::{FlatMessage, Message, Role};
use crate::tasks::generation::read_generated;
use crate::tasks::{
    Generated, GenerationSettings, Job, JobStep, RequestFailure, RequestResult, TaskContext, Usage,
    count_tokens, generate_request,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// What asks a model for a summary.
pub trait SummaryPrompt: Send + Sync {
    /// The messages whose answer is the summary of `history`.
    fn messages(&self, history: &[Message]) -> Vec<Message>;
}

/// What becomes of a summary that was cut off at its token limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutoffPolicy {
    /// It is a failure.
    #[default]
    Fail,
    /// It is kept as it is, as the paper's experiments did.
    Keep,
}

/// The constraints that `+extractor` appends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractedConstraints {
    /// The registry as a numbered user message; `None` where nothing was extracted, so that there is nothing to add.
    pub message: Option<Message>,
}

/// What a [`CompactJob`] works on.
#[derive(Clone)]
pub struct CompactionInput {
    /// The history.
    pub history: Arc<[Message]>,
    /// The prompt of an `llm` compactor.
    pub prompt: Option<Arc<dyn SummaryPrompt>>,
    /// How the compacting model generates.
    pub settings: GenerationSettings,
    /// What becomes of a summary that was cut off.
    pub cutoff: CutoffPolicy,
    /// The encoder of `llmlingua2`.
    pub encoder: Option<Arc<LlmLingua2>>,
    /// What `+extractor` appends.
    pub constraints: Option<ExtractedConstraints>,
}

/// A compactor that cannot run on this input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    /// `mask-observations` on a history whose tool results, if any, are plain text.
    #[error(
        "{compactor} needs typed tool results, and none of the history's {messages} messages has one: the history was \
         flattened to text, or holds no tool use"
    )]
    FlattenedHistory {
        /// The compactor's name.
        compactor: String,
        /// Messages of the history.
        messages: usize,
    },
    /// An `llm` compactor without its prompt.
    #[error("{compactor} needs a prompt, and none was given")]
    NoPrompt {
        /// The compactor's name.
        compactor: String,
    },
    /// `llmlingua2` without its encoder.
    #[error("{compactor} needs an encoder, and none was given")]
    NoEncoder {
        /// The compactor's name.
        compactor: String,
    },
    /// `+extractor` without extracted constraints.
    #[error("{compactor} needs the extracted constraints, and none were given")]
    NoRegistry {
        /// The compactor's name.
        compactor: String,
    },
}

/// Why a compaction failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompactionFailure {
    /// Nothing was left, or the summary is empty.
    #[error("the compaction is empty: no message is kept, or the summary has no text")]
    Empty,
    /// The summary was cut off at its token limit.
    #[error(
        "the summary was cut off after {tokens} tokens; to keep what there is, set cutoff = \"keep\" in a config's \
         [compact], or --cutoff keep on the command line"
    )]
    CutOff {
        /// Tokens generated, reasoning included.
        tokens: usize,
    },
    /// The model's reasoning never ended, so there is no summary.
    #[error("the reasoning was not finished after {tokens} tokens")]
    UnfinishedReasoning {
        /// Tokens generated.
        tokens: usize,
    },
    /// The prompt and one more token do not fit into the context.
    #[error("a prompt of {needed} tokens does not fit a context of {limit} tokens with room for an answer")]
    ContextExceeded {
        /// Tokens of the prompt (and of the longest option, where options are scored).
        needed: usize,
        /// The limit.
        limit: usize,
    },
    /// The prompt could not be rendered or tokenised.
    #[error("the prompt cannot be made: {message}")]
    Prompt {
        /// The cause.
        message: String,
    },
    /// The engine refused or failed the request.
    #[error("the engine failed the request: {message}")]
    Engine {
        /// The cause.
        message: String,
    },
    /// The encoder failed.
    #[error("the encoder failed: {message}")]
    Encoder {
        /// The cause.
        message: String,
    },
}

impl From<LinguaError> for CompactionFailure {
    fn from(error: LinguaError) -> Self {
        Self::Encoder { message: error.to_string() }
    }
}

impl From<RequestFailure> for CompactionFailure {
    fn from(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::ContextExceeded { needed, limit } => Self::ContextExceeded { needed, limit },
            RequestFailure::Prompt { message } => Self::Prompt { message },
            RequestFailure::Engine { message } => Self::Engine { message },
        }
    }
}

/// What a compactor made of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionResult {
    /// The messages that replace the history; empty where the compaction failed.
    pub messages: Vec<Message>,
    /// Content tokens of the history (see [`count_tokens`]).
    pub tokens_before: usize,
    /// Content tokens of `messages`.
    pub tokens_after: usize,
    /// How the summary ended; `None` where no model wrote one.
    pub finish_reason: Option<FinishReason>,
    /// Why it failed, where it did.
    pub failure: Option<CompactionFailure>,
    /// The summary's text, also where it was cut off and refused; `None` where no model wrote one.
    pub text: Option<String>,
    /// The model's reasoning, which is never part of `messages`.
    pub reasoning: Option<String>,
    /// Where the summary's output broke its format, and how it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// What it cost.
    pub usage: Usage,
}

/// One compactor on one history.
pub struct CompactJob {
    kind: CompactorKind,
    input: CompactionInput,
    /// The way through the encoder, once begun.
    compression: Option<(Compression, Instant)>,
}

impl CompactJob {
    /// Checks that the compactor can run on the input.
    ///
    /// # Errors
    /// [`CompactError`].
    pub fn new(spec: &CompactorSpec, input: CompactionInput) -> Result<Self, CompactError> {
        let compactor = || spec.to_string();
        match &spec.kind {
            CompactorKind::MaskObservations { .. } if select::count_results(&input.history) == 0 => {
                return Err(CompactError::FlattenedHistory {
                    compactor: compactor(),
                    messages: input.history.len(),
                });
            }
            CompactorKind::Llm { .. } if input.prompt.is_none() => {
                return Err(CompactError::NoPrompt { compactor: compactor() });
            }
            CompactorKind::LlmLingua2 { .. } if input.encoder.is_none() => {
                return Err(CompactError::NoEncoder { compactor: compactor() });
            }
            _ => {}
        }
        if spec.extractor && input.constraints.is_none() {
            return Err(CompactError::NoRegistry { compactor: compactor() });
        }
        let constraints = if spec.extractor { input.constraints } else { None };
        let input = CompactionInput { constraints, ..input };
        Ok(Self { kind: spec.kind.clone(), input, compression: None })
    }

    fn begin(&mut self, context: &TaskContext<'_>) -> Result<JobStep<CompactionResult>, CompactionFailure> {
        let history = &self.input.history;
        let messages = match &self.kind {
            CompactorKind::Recent { messages } => select::recent(history, *messages),
            CompactorKind::MaskObservations { keep } => select::mask_observations(history, *keep),
            CompactorKind::UserTurns { budget } => select::user_turns(history, *budget, context.tokenizer)
                .map_err(|error| CompactionFailure::Prompt { message: error.to_string() })?,
            CompactorKind::Llm { .. } => {
                let prompt =
                    self.input.prompt.as_ref().map(|prompt| prompt.messages(history)).unwrap_or_default();
                return Ok(JobStep::Submit(generate_request(context, &prompt, &self.input.settings, None)?));
            }
            CompactorKind::LlmLingua2 { tokens } => {
                // `new` made sure of the encoder.
                let Some(encoder) = self.input.encoder.clone() else { return Err(CompactionFailure::Empty) };
                let contexts: Vec<String> = history.iter().map(as_context).collect();
                self.compression = Some((Compression::new(encoder, &contexts, *tokens)?, Instant::now()));
                return self.compress(context);
            }
        };
        let failure = messages.is_empty().then_some(CompactionFailure::Empty);
        Ok(JobStep::Done(self.result(context, messages, failure, None)))
    }

    /// Goes on through the encoder.
    fn compress(
        &mut self,
        context: &TaskContext<'_>,
    ) -> Result<JobStep<CompactionResult>, CompactionFailure> {
        let Some((compression, since)) = &mut self.compression else { return Err(CompactionFailure::Empty) };
        let text = match compression.step()? {
            CompressionStep::Working { done, total } => return Ok(JobStep::Working { done, total }),
            CompressionStep::Done(text) => text,
        };
        let usage = Usage {
            prompt_tokens: compression.encoded_tokens(),
            seconds: since.elapsed().as_secs_f64(),
            ..Usage::default()
        };
        let failure = text.trim().is_empty().then_some(CompactionFailure::Empty);
        let messages = vec![Message::text(Role::Assistant, text)];
        Ok(JobStep::Done(CompactionResult { usage, ..self.result(context, messages, failure, None) }))
    }

    fn read_summary(&self, context: &TaskContext<'_>, generated: Generated) -> CompactionResult {
        let tokens = generated.usage.generated_tokens;
        let is_cut_off = generated.finish_reason == FinishReason::Length;
        // An unfinished reasoning holds no summary to keep, whatever the policy.
        let failure = if generated.unfinished_reasoning {
            Some(CompactionFailure::UnfinishedReasoning { tokens })
        } else if is_cut_off && self.input.cutoff == CutoffPolicy::Fail {
            Some(CompactionFailure::CutOff { tokens })
        } else if generated.answer.trim().is_empty() {
            Some(CompactionFailure::Empty)
        } else {
            None
        };
        let messages = vec![Message::text(Role::Assistant, generated.answer.clone())];
        self.result(context, messages, failure, Some(generated))
    }

    /// Puts the result together; a failed one has no messages.
    fn result(
        &self,
        context: &TaskContext<'_>,
        mut messages: Vec<Message>,
        mut failure: Option<CompactionFailure>,
        generated: Option<Generated>,
    ) -> CompactionResult {
        if let Some(constraints) = &self.input.constraints {
            messages.extend(constraints.message.clone());
        }
        if failure.is_some() {
            messages.clear();
        }
        let counted = count_tokens(context.tokenizer, &self.input.history)
            .and_then(|before| Ok((before, count_tokens(context.tokenizer, &messages)?)));
        let (tokens_before, tokens_after) = match counted {
            Ok(counts) => counts,
            Err(error) => {
                messages.clear();
                failure = failure.or(Some(CompactionFailure::Prompt { message: error.to_string() }));
                (0, 0)
            }
        };
        let mut result = CompactionResult {
            messages,
            tokens_before,
            tokens_after,
            finish_reason: None,
            failure,
            text: None,
            reasoning: None,
            recoveries: Vec::new(),
            usage: Usage::default(),
        };
        if let Some(generated) = generated {
            result.finish_reason = Some(generated.finish_reason);
            result.text = Some(generated.answer);
            result.reasoning = generated.reasoning;
            result.recoveries = generated.recoveries;
            result.usage = generated.usage;
        }
        result
    }
}

/// A message as `llmlingua2` reads it.
fn as_context(message: &Message) -> String {
    let flat = FlatMessage::from(message);
    format!("[{}]: {}", flat.role, flat.content)
}

impl Job for CompactJob {
    type Output = CompactionResult;

    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> JobStep<CompactionResult> {
        let step = match previous {
            None if self.compression.is_some() => self.compress(context),
            None => self.begin(context),
            Some(result) => read_generated(context, &self.input.settings, result)
                .map(|generated| JobStep::Done(self.read_summary(context, generated)))
                .map_err(CompactionFailure::from),
        };
        step.unwrap_or_else(|failure| JobStep::Done(self.result(context, Vec::new(), Some(failure), None)))
    }
}
