//! [`ChoiceProbe`]: the letters' log-probabilities.

use super::Letter;
use crate::chat::harmony::Recovery;
use crate::decode::ChoiceScores;
use crate::history::Message;
use crate::tasks::fork::{ForkedResult, ForkedStep};
use crate::tasks::{
    BeforeAnswer, ForkedChoice, GenerationSettings, Job, JobStep, Outcome, ReasoningMode, RequestResult,
    TaskContext, UnscoredReason, Usage,
};
use serde::{Deserialize, Serialize};

const OPTIONS: [&str; 2] = [Letter::A.as_str(), Letter::B.as_str()];

/// What a scored probe came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChoiceOutcome {
    /// The likelier letter by summed log-probability; a tie goes to A.
    #[serde(flatten)]
    pub letter: Outcome<Letter>,
    /// The scores of A and B, in this order.
    pub scores: Option<ChoiceScores>,
    /// What the letters were scored after.
    pub before: Option<BeforeAnswer>,
    /// The model's reasoning, where it reasoned.
    pub reasoning: Option<String>,
    /// Where the output broke its format, and how it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// What it cost.
    pub usage: Usage,
}

/// Scores "A" and "B" as the answer to a probe.
pub struct ChoiceProbe {
    choice: ForkedChoice,
}

impl ChoiceProbe {
    /// `messages` end with the probe; `mode` says what a reasoning model does first.
    pub fn new(messages: Vec<Message>, settings: GenerationSettings, mode: ReasoningMode) -> Self {
        Self { choice: ForkedChoice::new(messages, &OPTIONS, settings, mode, false) }
    }
}

impl Job for ChoiceProbe {
    type Output = ChoiceOutcome;

    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        previous: Option<RequestResult>,
    ) -> JobStep<ChoiceOutcome> {
        match self.choice.advance(context, previous) {
            ForkedStep::Submit(request) => JobStep::Submit(request),
            ForkedStep::Done(Ok(result)) => JobStep::Done(outcome(result)),
            ForkedStep::Done(Err(failure)) => JobStep::Done(ChoiceOutcome {
                letter: Outcome::Failed { failure },
                scores: None,
                before: None,
                reasoning: None,
                recoveries: Vec::new(),
                usage: Usage::default(),
            }),
        }
    }
}

fn outcome(result: ForkedResult) -> ChoiceOutcome {
    let letter = match result.scores.as_ref().and_then(ChoiceScores::best) {
        Some(0) => Outcome::Scored { answer: Letter::A },
        Some(_) => Outcome::Scored { answer: Letter::B },
        None if result.unfinished_reasoning => {
            Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning }
        }
        None => Outcome::Unscored { reason: UnscoredReason::Empty },
    };
    ChoiceOutcome {
        letter,
        scores: result.scores,
        before: Some(result.before),
        reasoning: result.reasoning,
        recoveries: result.recoveries,
        usage: result.usage,
    }
}
