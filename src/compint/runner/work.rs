//! [`Work`]: any of the tasks as one kind of job, so that they share batches.

use crate::tasks::compact::{CompactJob, CompactionFailure, CompactionResult};
use crate::tasks::extract::{ExtractJob, Extraction, TurnFailure};
use crate::tasks::judge::{JudgeJob, Verdict};
use crate::tasks::probe::{ChoiceOutcome, ChoiceProbe, GenerateProbe, ProbeOutcome};
use crate::tasks::{Job, JobStep, Outcome, RequestFailure, RequestResult, TaskContext};

/// One task.
pub(super) enum Work {
    Extract(ExtractJob),
    Compact(CompactJob),
    Judge(JudgeJob),
    Generate(GenerateProbe),
    Choose(ChoiceProbe),
}

/// What it came to.
pub(super) enum WorkOutput {
    Extraction(Extraction),
    Compaction(CompactionResult),
    Verdict(Verdict),
    Answer(ProbeOutcome),
    Choice(ChoiceOutcome),
}

fn map<T>(step: JobStep<T>, wrap: impl FnOnce(T) -> WorkOutput) -> JobStep<WorkOutput> {
    match step {
        JobStep::Submit(request) => JobStep::Submit(request),
        JobStep::Working { done, total } => JobStep::Working { done, total },
        JobStep::Done(output) => JobStep::Done(wrap(output)),
    }
}

impl Job for Work {
    type Output = WorkOutput;

    fn advance(&mut self, context: &TaskContext<'_>, previous: Option<RequestResult>) -> JobStep<WorkOutput> {
        match self {
            Self::Extract(job) => map(job.advance(context, previous), WorkOutput::Extraction),
            Self::Compact(job) => map(job.advance(context, previous), WorkOutput::Compaction),
            Self::Judge(job) => map(job.advance(context, previous), WorkOutput::Verdict),
            Self::Generate(job) => map(job.advance(context, previous), WorkOutput::Answer),
            Self::Choose(job) => map(job.advance(context, previous), WorkOutput::Choice),
        }
    }
}

impl WorkOutput {
    /// As the sink keeps it.
    pub(super) fn to_json(&self) -> Result<String, serde_json::Error> {
        match self {
            Self::Extraction(output) => serde_json::to_string(output),
            Self::Compaction(output) => serde_json::to_string(output),
            Self::Verdict(output) => serde_json::to_string(output),
            Self::Answer(output) => serde_json::to_string(output),
            Self::Choice(output) => serde_json::to_string(output),
        }
    }

    /// Seconds its requests took.
    pub(super) fn seconds(&self) -> f64 {
        match self {
            Self::Extraction(output) => output.turns.iter().map(|turn| turn.usage.seconds).sum(),
            Self::Compaction(output) => output.usage.seconds,
            Self::Verdict(output) => output.usage.seconds,
            Self::Answer(output) => output.usage.seconds,
            Self::Choice(output) => output.usage.seconds,
        }
    }

    /// Whether the engine refused a request for a reason of its own, such as a pool too small for it.
    pub(super) fn was_refused(&self) -> bool {
        fn failed<T>(outcome: &Outcome<T>) -> bool {
            matches!(outcome, Outcome::Failed { failure: RequestFailure::Engine { .. } })
        }
        match self {
            Self::Extraction(output) => extraction_was_refused(output),
            Self::Compaction(output) => was_refused(output),
            Self::Verdict(output) => failed(&output.retained),
            Self::Answer(output) => failed(&output.letter),
            Self::Choice(output) => failed(&output.letter),
        }
    }
}

/// Whether the engine refused the summary.
pub(super) fn was_refused(result: &CompactionResult) -> bool {
    matches!(result.failure, Some(CompactionFailure::Engine { .. }))
}

/// Whether the engine refused a turn.
pub(super) fn extraction_was_refused(extraction: &Extraction) -> bool {
    extraction.turns.iter().any(|turn| {
        matches!(turn.failure, Some(TurnFailure::Request { failure: RequestFailure::Engine { .. } }))
    })
}
