//! [`ForkedChoice`]: which of a few short answers a model holds likely after a prompt.

use super::generation::{generate_from, read_generated, render};
use super::options::{Prompt, prompt_failure, tokenise_options};
use super::{GenerationSettings, RequestFailure, RequestResult, TaskContext, Usage};
use crate::chat::harmony::Recovery;
use crate::decode::{ChoiceScores, Grammar};
use crate::engine::{FinishReason, Request, RequestKind, RequestOutput};
use crate::history::Message;
use serde::{Deserialize, Serialize};

/// What a reasoning model does before its answers are scored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningMode {
    /// It reasons as it does, and the answers are scored after that.
    #[default]
    Own,
    /// Its reasoning is closed and empty.
    ClosedEmpty,
}

/// What stood between the prompt and the scored answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BeforeAnswer {
    /// Nothing: the model does not reason under these settings.
    Nothing,
    /// The model's own reasoning.
    OwnReasoning,
    /// A closed, empty reasoning.
    ClosedEmptyReasoning,
}

/// What became of a [`ForkedChoice`].
#[derive(Debug, Clone, PartialEq)]
pub struct ForkedResult {
    /// The answer that was generated under the grammar, where one was asked for; raw, without reasoning.
    pub generated: Option<String>,
    /// The model's reasoning, where it reasoned.
    pub reasoning: Option<String>,
    /// Where the generated output broke its format, and how it was read.
    pub recoveries: Vec<Recovery>,
    /// Whether the generated output was cut off.
    pub cut_off: bool,
    /// Whether the reasoning never closed; nothing is scored then.
    pub unfinished_reasoning: bool,
    /// The options' scores.
    pub scores: Option<ChoiceScores>,
    /// What they were scored after.
    pub before: BeforeAnswer,
    /// What it cost.
    pub usage: Usage,
}

/// Scores short answers on a fork of a prompt, after reasoning where there is some.
///
/// Shared by the judge and the choice probe: one request to generate (reasoning, and an answer under a grammar), one
/// to score.
pub struct ForkedChoice {
    messages: Vec<Message>,
    options: Vec<String>,
    settings: GenerationSettings,
    mode: ReasoningMode,
    /// Whether an answer is generated even where nothing needs to be reasoned.
    always_generate: bool,
    stage: Stage,
}

enum Stage {
    Start,
    Generating(Prompt),
    Scoring(ForkedResult),
}

/// What a [`ForkedChoice`] wants next.
pub(super) enum ForkedStep {
    Submit(Request),
    Done(Result<ForkedResult, RequestFailure>),
}

impl ForkedChoice {
    /// Scores `options` after `messages`.
    pub(super) fn new(
        messages: Vec<Message>,
        options: &[&str],
        settings: GenerationSettings,
        mode: ReasoningMode,
        always_generate: bool,
    ) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self { messages, options, settings, mode, always_generate, stage: Stage::Start }
    }

    pub(super) fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> ForkedStep {
        match self.next(context, previous) {
            Ok(step) => step,
            Err(failure) => ForkedStep::Done(Err(failure)),
        }
    }

    fn next(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> Result<ForkedStep, RequestFailure> {
        match (std::mem::replace(&mut self.stage, Stage::Start), previous) {
            (Stage::Generating(prompt), Some(result)) => self.after_generation(context, &prompt, result),
            (Stage::Scoring(result), Some(scored)) => Ok(ForkedStep::Done(read_scores(result, scored))),
            _ => self.begin(context),
        }
    }

    fn begin(&mut self, context: &TaskContext<'_>) -> Result<ForkedStep, RequestFailure> {
        let prompt = render(context, &self.messages, &self.settings)?;
        let options = context.render_options(&self.settings);
        let reasons = context.template.reasons(&options);
        let closed = match self.mode {
            ReasoningMode::ClosedEmpty => context.template.closed_reasoning(&options),
            ReasoningMode::Own => None,
        };
        if reasons && self.mode == ReasoningMode::ClosedEmpty && closed.is_none() {
            return Err(prompt_failure(
                "the model reasons, but its template does not say how to close reasoning",
            ));
        }
        let generate =
            (reasons && self.mode == ReasoningMode::Own) || (self.always_generate && closed.is_none());
        if generate {
            let grammar = Grammar::Choice(self.options.clone());
            let request = generate_from(context, &prompt, &self.settings, Some(grammar))?;
            self.stage = Stage::Generating(prompt);
            return Ok(ForkedStep::Submit(request));
        }
        let before =
            if closed.is_some() { BeforeAnswer::ClosedEmptyReasoning } else { BeforeAnswer::Nothing };
        let result = ForkedResult {
            generated: None,
            reasoning: None,
            recoveries: Vec::new(),
            cut_off: false,
            unfinished_reasoning: false,
            scores: None,
            before,
            usage: Usage::default(),
        };
        let added = closed.unwrap_or_default();
        self.score(context, &prompt, &added, result)
    }

    fn after_generation(
        &mut self,
        context: &TaskContext<'_>,
        prompt: &Prompt,
        result: RequestResult,
    ) -> Result<ForkedStep, RequestFailure> {
        let generated = read_generated(context, &self.settings, result)?;
        let reasons = context.template.reasons(&context.render_options(&self.settings));
        let mut result = ForkedResult {
            generated: Some(generated.answer),
            reasoning: generated.reasoning,
            recoveries: generated.recoveries,
            cut_off: generated.finish_reason == FinishReason::Length,
            unfinished_reasoning: generated.unfinished_reasoning,
            scores: None,
            before: BeforeAnswer::Nothing,
            usage: generated.usage,
        };
        let reasoning = reasons.then(|| reasoning_with_end(context, &generated.text));
        let added = match reasoning.flatten() {
            Some(text) => {
                result.before = BeforeAnswer::OwnReasoning;
                text
            }
            // The reasoning may still have been going on, so there is no place at which an answer would follow.
            None if result.unfinished_reasoning || (reasons && result.cut_off) => {
                result.unfinished_reasoning = true;
                result.before = BeforeAnswer::OwnReasoning;
                return Ok(ForkedStep::Done(Ok(result)));
            }
            // A model that may reason can also answer at once.
            None => String::new(),
        };
        self.score(context, prompt, &added, result)
    }

    /// Asks for the options' scores after the prompt and `added`.
    fn score(
        &mut self,
        context: &TaskContext<'_>,
        prompt: &Prompt,
        added: &str,
        result: ForkedResult,
    ) -> Result<ForkedStep, RequestFailure> {
        let (ids, continuations) = tokenise_options(context.tokenizer, prompt, added, &self.options)?;
        // Tokenising again keeps the tokens of all but the last of the text, the ends of earlier messages included.
        let boundaries = prompt.boundaries.iter().copied().filter(|&end| end <= ids.len()).collect();
        let is_follow_up = result.generated.is_some();
        self.stage = Stage::Scoring(result);
        let request = Request {
            boundaries,
            is_follow_up,
            adaptations: prompt.adaptations.clone(),
            ..Request::new(ids, RequestKind::Score { continuations })
        };
        Ok(ForkedStep::Submit(request))
    }
}

/// The generated text up to the end of its reasoning, ended as the template ends it.
fn reasoning_with_end(context: &TaskContext<'_>, text: &str) -> Option<String> {
    let end = context.template.reasoning_end()?;
    // Models differ in the line breaks after the marker; the template's own are put in their place.
    let marker = end.trim_end();
    let at = text.find(marker)?;
    Some(format!("{}{end}", &text[..at]))
}

fn read_scores(mut result: ForkedResult, scored: RequestResult) -> Result<ForkedResult, RequestFailure> {
    let completion = scored?;
    result.usage.add(Usage {
        prompt_tokens: completion.cached_tokens + completion.prefilled_tokens,
        cached_tokens: completion.cached_tokens,
        generated_tokens: 0,
        seconds: completion.seconds,
    });
    match completion.output {
        RequestOutput::Scored(scores) => {
            result.scores = Some(scores);
            Ok(result)
        }
        RequestOutput::Failed(message) => Err(RequestFailure::Engine { message }),
        _ => Err(RequestFailure::Engine {
            message: "a score request was answered by something else".to_owned(),
        }),
    }
}
