//! The lines of `choice.jsonl` and `details.jsonl`.

use super::rows::{Measurement, asked};
use crate::chat::harmony::Recovery;
use crate::compint::runner::RunPlan;
use crate::history::FlatMessage;
use crate::tasks::Outcome;
use crate::tasks::judge::containment;
use crate::tasks::probe::Letter;
use serde_json::{Map, Value, json};

/// One instance's scored letters: for each condition the likelier letter, whether it is the compliant one, what it was
/// scored after, and the scores of A and B.
pub(super) fn choice_line(plan: &RunPlan, measurement: &Measurement) -> Value {
    let mut line = Map::new();
    line.insert("id".into(), json!(measurement.row.id));
    line.insert("compliant_letter".into(), json!(measurement.row.compliant_letter));
    for condition in asked(plan) {
        let value = measurement.choices[condition.index()].as_ref().map(|choice| {
            let letter = choice.letter.answer().map(Letter::as_str);
            json!({
                "letter": letter,
                "compliant": letter.map(|letter| letter == measurement.row.compliant_letter.as_str()),
                "cause": cause(&choice.letter),
                "scored_after": choice.before,
                "scores": choice.scores.as_ref().map(|scores| &scores.choices),
            })
        });
        line.insert(condition.to_string(), json!(value));
    }
    Value::Object(line)
}

/// What stands behind one row: the judge's margin, the check without a model, sizes, the cause of all that is missing,
/// and where outputs broke their format.
pub(super) fn details_line(plan: &RunPlan, measurement: &Measurement) -> Value {
    let Measurement { row, verdict, compaction, extraction, .. } = measurement;
    let text: Vec<&str> = row.compacted.iter().map(|FlatMessage { content, .. }| content.as_str()).collect();
    let check = (!text.is_empty()).then(|| containment(&measurement.sc_text, &text.join("\n")));
    let mut probes = Map::new();
    for condition in asked(plan) {
        let answer = measurement.answers[condition.index()].as_ref();
        let choice = measurement.choices[condition.index()].as_ref();
        let cause = answer
            .and_then(|answer| cause(&answer.letter))
            .or(choice.and_then(|choice| cause(&choice.letter)));
        probes.insert(condition.to_string(), json!(cause));
    }
    json!({
        "id": row.id,
        "retention": row.retention,
        "judge_margin": verdict.as_ref().and_then(|verdict| verdict.margin),
        "judge_cause": verdict.as_ref().and_then(|verdict| cause(&verdict.retained)),
        "contained": check.map(|check| check.contained),
        "content_words": check.and_then(|check| check.content_words),
        "tokens_before": compaction.as_ref().map(|result| result.tokens_before),
        "tokens_after": compaction.as_ref().map(|result| result.tokens_after),
        "finish_reason": compaction.as_ref().and_then(|result| result.finish_reason),
        "compaction_failure": compaction.as_ref().and_then(|result| result.failure.as_ref()).map(ToString::to_string),
        "extracted": extraction.as_ref().map(|extraction| extraction.registry.texts()),
        "extraction_turns_failed": extraction.as_ref().map(|extraction| extraction.failed_turns()),
        "probe_causes": probes,
        "recoveries": recoveries(plan, measurement),
    })
}

/// Where outputs broke their format and how they were read, by the role of the result; results without any are left out.
fn recoveries(plan: &RunPlan, measurement: &Measurement) -> Value {
    let Measurement { verdict, compaction, extraction, .. } = measurement;
    let mut found = Map::new();
    let mut insert = |role: String, recoveries: Vec<&Recovery>| {
        if !recoveries.is_empty() {
            found.insert(role, json!(recoveries));
        }
    };
    let turns = extraction.iter().flat_map(|extraction| &extraction.turns);
    insert("extract".into(), turns.flat_map(|turn| &turn.recoveries).collect());
    insert("compact".into(), compaction.iter().flat_map(|result| &result.recoveries).collect());
    insert("judge".into(), verdict.iter().flat_map(|verdict| &verdict.recoveries).collect());
    for condition in asked(plan) {
        let answer = &measurement.answers[condition.index()];
        insert(
            format!("generate:{condition}"),
            answer.iter().flat_map(|answer| &answer.recoveries).collect(),
        );
        let choice = &measurement.choices[condition.index()];
        insert(format!("choice:{condition}"), choice.iter().flat_map(|choice| &choice.recoveries).collect());
    }
    Value::Object(found)
}

fn cause<T>(outcome: &Outcome<T>) -> Option<String> {
    match outcome {
        Outcome::Scored { .. } => None,
        Outcome::Unscored { reason } => Some(format!("unscored: {reason}")),
        Outcome::Failed { failure } => Some(format!("failed: {failure}")),
    }
}
