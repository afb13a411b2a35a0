//! [`JudgeJob`]: one verdict.

use crate::chat::harmony::Recovery;
use crate::decode::ChoiceScores;
use crate::history::Message;
use crate::tasks::fork::{ForkedResult, ForkedStep};
use crate::tasks::{
    BeforeAnswer, ForkedChoice, GenerationSettings, Job, JobStep, Outcome, ReasoningMode, RequestResult,
    TaskContext, UnscoredReason, Usage,
};
use serde::{Deserialize, Serialize};

const OPTIONS: [&str; 2] = ["YES", "NO"];

/// What the judge said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the constraint is still stated (YES).
    #[serde(flatten)]
    pub retained: Outcome<bool>,
    /// Natural log-probability of YES minus that of NO; positive leans to YES. `None` where nothing was scored.
    pub margin: Option<f64>,
    /// The scores of YES and NO, in this order.
    pub scores: Option<ChoiceScores>,
    /// What the answer stood after.
    pub before: Option<BeforeAnswer>,
    /// The judge's reasoning, where it reasons.
    pub reasoning: Option<String>,
    /// Where the output broke its format, and how it was read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// What it cost.
    pub usage: Usage,
}

/// Asks for one verdict: generates YES or NO under a grammar, after its reasoning where the model reasons, then scores
/// both for the margin.
pub struct JudgeJob {
    choice: ForkedChoice,
}

impl JudgeJob {
    /// `messages` ask whether a constraint is retained, to be answered YES or NO.
    pub fn new(messages: Vec<Message>, settings: GenerationSettings) -> Self {
        Self { choice: ForkedChoice::new(messages, &OPTIONS, settings, ReasoningMode::Own, true) }
    }
}

impl Job for JudgeJob {
    type Output = Verdict;

    fn advance(&mut self, context: &TaskContext<'_>, previous: Option<RequestResult>) -> JobStep<Verdict> {
        match self.choice.advance(context, previous) {
            ForkedStep::Submit(request) => JobStep::Submit(request),
            ForkedStep::Done(Ok(result)) => JobStep::Done(verdict(result)),
            ForkedStep::Done(Err(failure)) => JobStep::Done(Verdict {
                retained: Outcome::Failed { failure },
                margin: None,
                scores: None,
                before: None,
                reasoning: None,
                recoveries: Vec::new(),
                usage: Usage::default(),
            }),
        }
    }
}

fn verdict(result: ForkedResult) -> Verdict {
    let answer = result.generated.unwrap_or_default();
    let retained = match answer.trim() {
        _ if result.unfinished_reasoning => Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning },
        "YES" => Outcome::Scored { answer: true },
        "NO" => Outcome::Scored { answer: false },
        _ if result.cut_off => Outcome::Unscored { reason: UnscoredReason::CutOff },
        "" => Outcome::Unscored { reason: UnscoredReason::Empty },
        other => Outcome::Unscored { reason: UnscoredReason::NotAnOption { answer: other.to_owned() } },
    };
    Verdict {
        retained,
        margin: result.scores.as_ref().and_then(|scores| scores.margin(0, 1)),
        scores: result.scores,
        before: Some(result.before),
        reasoning: result.reasoning,
        recoveries: result.recoveries,
        usage: result.usage,
    }
}
