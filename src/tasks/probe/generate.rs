//! [`GenerateProbe`]: the model writes its answer.

use super::Letter;
use crate::chat::harmony::Recovery;
use crate::engine::FinishReason;
use crate::history::Message;
use crate::tasks::generation::read_generated;
use crate::tasks::{
    Generated, GenerationSettings, Job, JobStep, Outcome, RequestFailure, RequestResult, TaskContext,
    UnscoredReason, Usage, generate_request,
};
use serde::{Deserialize, Serialize};

/// What a generated probe came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeOutcome {
    /// The letter, where there is one.
    #[serde(flatten)]
    pub letter: Outcome<Letter>,
    /// The answer as text, without reasoning.
    pub output: String,
    /// The reasoning, where there is some.
    pub reasoning: Option<String>,
    /// How the output ended; `None` where there is none.
    pub finish_reason: Option<FinishReason>,
    /// Where the output broke its format, and how it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// What it cost.
    pub usage: Usage,
}

/// Lets a model answer a probe.
pub struct GenerateProbe {
    messages: Vec<Message>,
    settings: GenerationSettings,
}

impl GenerateProbe {
    /// `messages` end with the probe.
    pub fn new(messages: Vec<Message>, settings: GenerationSettings) -> Self {
        Self { messages, settings }
    }
}

/// The letter in the last non-empty line, trimmed and in any case; the line itself where it is no letter.
///
/// # Source
/// conpact 0.1.0, `evaluate._probe`; line boundaries are Python's `str.splitlines`.
pub fn read_letter(answer: &str) -> Result<Letter, &str> {
    let is_boundary = |character: char| {
        matches!(
            character,
            '\n' | '\r'
                | '\u{b}'
                | '\u{c}'
                | '\u{1c}'
                | '\u{1d}'
                | '\u{1e}'
                | '\u{85}'
                | '\u{2028}'
                | '\u{2029}'
        )
    };
    let last = answer.split(is_boundary).map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
    match last.to_uppercase().as_str() {
        "A" => Ok(Letter::A),
        "B" => Ok(Letter::B),
        _ => Err(last),
    }
}

fn failed(failure: RequestFailure) -> ProbeOutcome {
    let letter = Outcome::Failed { failure };
    ProbeOutcome {
        letter,
        output: String::new(),
        reasoning: None,
        finish_reason: None,
        recoveries: Vec::new(),
        usage: Usage::default(),
    }
}

fn outcome(generated: Generated) -> ProbeOutcome {
    let letter = match read_letter(&generated.answer) {
        Ok(letter) => Outcome::Scored { answer: letter },
        Err(_) if generated.unfinished_reasoning => {
            Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning }
        }
        Err(_) if generated.finish_reason == FinishReason::Length => {
            Outcome::Unscored { reason: UnscoredReason::CutOff }
        }
        Err("") => Outcome::Unscored { reason: UnscoredReason::Empty },
        Err(line) => Outcome::Unscored { reason: UnscoredReason::NotAnOption { answer: line.to_owned() } },
    };
    ProbeOutcome {
        letter,
        output: generated.answer,
        reasoning: generated.reasoning,
        finish_reason: Some(generated.finish_reason),
        recoveries: generated.recoveries,
        usage: generated.usage,
    }
}

impl Job for GenerateProbe {
    type Output = ProbeOutcome;

    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> JobStep<ProbeOutcome> {
        match previous {
            None => match generate_request(context, &self.messages, &self.settings, None) {
                Ok(request) => JobStep::Submit(request),
                Err(failure) => JobStep::Done(failed(failure)),
            },
            Some(result) => {
                JobStep::Done(read_generated(context, &self.settings, result).map_or_else(failed, outcome))
            }
        }
    }
}
