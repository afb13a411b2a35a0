//! [`Job`]: work that needs an engine's answers one after another.

use super::GenerationSettings;
use crate::chat::{ChatTemplate, RenderOptions};
use crate::engine::{Completion, EngineError, Request};
use crate::tokenizer::Tokenizer;

/// A state machine that asks for one request at a time.
///
/// `advance` is first called with `None`, then with the result of each request it asked for, or with `None` again after
/// [`JobStep::Working`]. After
/// [`JobStep::Done`] it is not called again.
pub trait Job {
    /// What the job yields; a failure is part of it.
    type Output;

    /// Takes the last request's result and says what comes next.
    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> JobStep<Self::Output>;
}

/// What a job wants next.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a step is made, matched and gone; it is never stored")]
pub enum JobStep<T> {
    /// An answer to this request.
    Submit(Request),
    /// Nothing of an engine: it has work of its own, of which a part is done. It is called again with `None`.
    Working {
        /// Parts done.
        done: usize,
        /// All parts.
        total: usize,
    },
    /// Nothing: it is finished.
    Done(T),
}

/// An engine's answer to one request of a job.
pub type RequestResult = Result<Completion, RequestRefusal>;

/// A request that the engine did not take. The job records it; the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestRefusal {
    /// The prompt and one more token do not fit into the context.
    #[error("a prompt of {needed} tokens does not fit a context of {limit} tokens with room for an answer")]
    ContextExceeded {
        /// Tokens of the prompt (and of the longest option, where options are scored).
        needed: usize,
        /// The limit.
        limit: usize,
    },
    /// The engine refused the request for another reason.
    #[error("{0}")]
    Refused(String),
}

impl From<EngineError> for RequestRefusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::ContextExceeded { prompt, limit } => Self::ContextExceeded { needed: prompt, limit },
            other => Self::Refused(other.to_string()),
        }
    }
}

/// What a job may know of the model it runs on.
#[derive(Clone, Copy)]
pub struct TaskContext<'a> {
    /// The model's tokenizer.
    pub tokenizer: &'a Tokenizer,
    /// The model's chat template.
    pub template: &'a ChatTemplate,
    /// Most tokens of prompt and output together.
    pub context_length: usize,
    /// The date templates see, `YYYY-MM-DD`: fixed for a run.
    pub date: &'a str,
}

impl TaskContext<'_> {
    /// How a prompt that the model is to answer is rendered under `settings`.
    pub fn render_options(&self, settings: &GenerationSettings) -> RenderOptions {
        RenderOptions {
            add_generation_prompt: true,
            thinking: settings.thinking,
            reasoning_effort: settings.reasoning_effort.clone(),
            date: self.date.to_owned(),
        }
    }
}
