//! One generated answer: from messages to a request, and from a completion to its parts.

use super::options::Prompt;
use super::{RequestFailure, RequestResult, TaskContext};
use crate::chat::harmony::Recovery;
use crate::decode::{Grammar, SamplingParams};
use crate::engine::{FinishReason, GenerateParams, GrammarStart, Request, RequestKind, RequestOutput};
use crate::history::Message;
use serde::{Deserialize, Serialize};

/// How a model generates in one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenerationSettings {
    /// Most new tokens, reasoning included.
    pub max_tokens: usize,
    /// How tokens are drawn; greedy by default.
    pub sampling: SamplingParams,
    /// Whether the model reasons first, for templates that have the switch; `None` leaves the template's default.
    pub thinking: Option<bool>,
    /// How much the model reasons (`low`, `medium`, `high`), for templates that know it.
    pub reasoning_effort: Option<String>,
}

impl Default for GenerationSettings {
    fn default() -> Self {
        Self { max_tokens: 4096, sampling: SamplingParams::default(), thinking: None, reasoning_effort: None }
    }
}

/// What a request cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Of these, taken from the cache.
    pub cached_tokens: usize,
    /// New tokens.
    pub generated_tokens: usize,
    /// Seconds from submission to end.
    pub seconds: f64,
}

impl Usage {
    /// Adds another request's cost.
    pub fn add(&mut self, other: Usage) {
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.generated_tokens += other.generated_tokens;
        self.seconds += other.seconds;
    }
}

/// A generated answer, split.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The output as it was generated.
    pub text: String,
    /// The answer: without reasoning, tool calls and template markers.
    pub answer: String,
    /// The reasoning, where there is some.
    pub reasoning: Option<String>,
    /// Whether the reasoning was never closed; the answer is then empty.
    pub unfinished_reasoning: bool,
    /// Where the output broke its format, and how it was read.
    pub recoveries: Vec<Recovery>,
    /// Whether the output ended by itself or was cut off.
    pub finish_reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
}

/// Renders `messages` for an answer.
pub(super) fn render(
    context: &TaskContext<'_>,
    messages: &[Message],
    settings: &GenerationSettings,
) -> Result<Prompt, RequestFailure> {
    context
        .template
        .render(context.tokenizer, messages, &context.render_options(settings))
        .map(Prompt::from)
        .map_err(|error| RequestFailure::Prompt { message: error.to_string() })
}

/// A request for the model's answer to `messages`.
///
/// `grammar` binds the answer alone: where the model reasons it starts after the reasoning.
///
/// # Errors
/// [`RequestFailure::Prompt`] where the messages cannot be rendered, or a grammar is asked for and the template does
/// not say how reasoning ends.
pub fn generate_request(
    context: &TaskContext<'_>,
    messages: &[Message],
    settings: &GenerationSettings,
    grammar: Option<Grammar>,
) -> Result<Request, RequestFailure> {
    generate_from(context, &render(context, messages, settings)?, settings, grammar)
}

pub(super) fn generate_from(
    context: &TaskContext<'_>,
    prompt: &Prompt,
    settings: &GenerationSettings,
    grammar: Option<Grammar>,
) -> Result<Request, RequestFailure> {
    let grammar = match grammar {
        None => None,
        Some(grammar) if !context.template.reasons(&context.render_options(settings)) => {
            Some((grammar, GrammarStart::Immediately))
        }
        Some(grammar) => {
            let end = context.template.reasoning_end().ok_or_else(|| RequestFailure::Prompt {
                message: "the model reasons, but its template does not say how reasoning ends, so a grammar has no place to start".to_owned(),
            })?;
            Some((grammar, GrammarStart::After(end.to_owned())))
        }
    };
    let params = GenerateParams {
        max_tokens: settings.max_tokens,
        sampling: settings.sampling.clone(),
        stop_strings: context.template.stop_strings().to_vec(),
        grammar,
        ..GenerateParams::default()
    };
    Ok(Request {
        boundaries: prompt.boundaries.clone(),
        adaptations: prompt.adaptations.clone(),
        ..Request::new(prompt.ids.clone(), RequestKind::Generate(params))
    })
}

/// Reads the answer to a generate request.
pub(super) fn read_generated(
    context: &TaskContext<'_>,
    settings: &GenerationSettings,
    result: RequestResult,
) -> Result<Generated, RequestFailure> {
    let completion = result?;
    match completion.output {
        RequestOutput::Generated { token_ids, text, finish_reason, .. } => {
            let parsed = context.template.parse_output_for(&text, &context.render_options(settings));
            if !parsed.recoveries.is_empty() {
                tracing::warn!(recoveries = ?parsed.recoveries, "the output broke its format");
            }
            let usage = Usage {
                prompt_tokens: completion.cached_tokens + completion.prefilled_tokens,
                cached_tokens: completion.cached_tokens,
                generated_tokens: token_ids.len(),
                seconds: completion.seconds,
            };
            Ok(Generated {
                text,
                answer: parsed.answer,
                reasoning: parsed.reasoning,
                unfinished_reasoning: parsed.unfinished_reasoning,
                recoveries: parsed.recoveries,
                finish_reason,
                usage,
            })
        }
        RequestOutput::Failed(message) => Err(RequestFailure::Engine { message }),
        RequestOutput::Scored(_) | RequestOutput::Hidden(_) | RequestOutput::Logits(_) => {
            Err(RequestFailure::Engine {
                message: "a generate request was answered by something else".to_owned(),
            })
        }
    }
}
