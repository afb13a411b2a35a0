use super::*;
use crate::decode::Grammar;
use crate::engine::{GrammarStart, RequestKind};
use crate::tasks::mock::{Reply, ScriptedEngine, grammar_start, user, without_thinking};
use crate::tasks::{BeforeAnswer, GenerationSettings, Outcome, RequestFailure, UnscoredReason};

fn job() -> JudgeJob {
    JudgeJob::new(vec![user("Still there?")], GenerationSettings::default())
}

/// Log-probabilities of YES and NO, one token a byte.
fn scores(yes: f32, no: f32) -> Reply {
    Reply::Scores(vec![vec![yes, 0.0, 0.0], vec![no, 0.0]])
}

#[test]
fn a_verdict_is_generated_under_the_grammar_and_then_scored() {
    let mut engine = ScriptedEngine::replies(vec![Reply::Text("YES"), scores(-0.5, -2.0)]);
    let verdict = engine.run(job());
    assert_eq!(verdict.retained, Outcome::Scored { answer: true });
    assert_eq!(verdict.margin, Some(1.5));
    assert_eq!(verdict.before, Some(BeforeAnswer::Nothing));
    assert_eq!(grammar_start(&engine.requests[0]), Some(GrammarStart::Immediately));
    let RequestKind::Generate(params) = &engine.requests[0].kind else {
        panic!("no generate request");
    };
    let choice = Grammar::Choice(vec!["YES".to_owned(), "NO".to_owned()]);
    assert_eq!(params.grammar.as_ref().map(|(grammar, _)| grammar), Some(&choice));
    let RequestKind::Score { continuations } = &engine.requests[1].kind else {
        panic!("no score request");
    };
    assert_eq!(engine.requests[1].prompt, engine.requests[0].prompt);
    // The margin is scored while the prompt is still in the cache, with the windows before its message ends.
    assert_eq!(engine.requests.iter().map(|request| request.is_follow_up).collect::<Vec<_>>(), [false, true]);
    let end = 1 + "user\nStill there?".len();
    assert_eq!(engine.requests[0].boundaries, [end]);
    assert_eq!(engine.requests[1].boundaries, [end]);
    assert_eq!(continuations.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    // Both requests are paid for.
    let prompts = engine.requests[0].prompt.len() + engine.requests[1].prompt.len();
    assert_eq!(
        (verdict.usage.prompt_tokens, verdict.usage.generated_tokens, verdict.usage.seconds),
        (prompts, 3, 1.0)
    );
}

#[test]
fn the_verdict_is_what_was_generated_and_the_margin_stands_beside_it() {
    // With sampling the two can differ; both are kept.
    let verdict = ScriptedEngine::replies(vec![Reply::Text("NO"), scores(-0.5, -2.0)]).run(job());
    assert_eq!((verdict.retained.answer(), verdict.margin), (Some(false), Some(1.5)));
}

#[test]
fn a_reasoning_judge_answers_after_its_reasoning() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![
        Reply::Text("<think>\nIt is there.\n</think>\n\nYES"),
        scores(-1.0, -1.5),
    ]);
    let verdict = engine.run(job());
    assert_eq!(verdict.retained.answer(), Some(true));
    assert_eq!(verdict.before, Some(BeforeAnswer::OwnReasoning));
    assert_eq!(verdict.reasoning.as_deref().map(str::trim), Some("It is there."));
    assert!(
        matches!(grammar_start(&engine.requests[0]), Some(GrammarStart::After(end)) if end.contains("</think>"))
    );
    assert!(
        engine.prompt(1).ends_with("<|im_start|>assistant\n<think>\nIt is there.\n</think>\n\n"),
        "{}",
        engine.prompt(1)
    );
}

#[test]
fn a_judge_with_thinking_off_answers_at_once() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::Text("NO"), scores(-3.0, -1.0)]);
    let verdict = engine.run(JudgeJob::new(vec![user("Still there?")], without_thinking()));
    assert_eq!((verdict.retained.answer(), verdict.before), (Some(false), Some(BeforeAnswer::Nothing)));
    assert_eq!(grammar_start(&engine.requests[0]), Some(GrammarStart::Immediately));
    assert!(engine.prompt(1).ends_with("<think>\n\n</think>\n\n"));
}

#[test]
fn answers_that_are_no_verdict_are_unscored() {
    let cases = [
        (Reply::Text(""), UnscoredReason::Empty),
        (Reply::Text("MAYBE"), UnscoredReason::NotAnOption { answer: "MAYBE".to_owned() }),
        (Reply::CutOff("Y"), UnscoredReason::CutOff),
    ];
    for (reply, reason) in cases {
        let verdict = ScriptedEngine::replies(vec![reply, scores(-1.0, -2.0)]).run(job());
        assert_eq!(verdict.retained, Outcome::Unscored { reason });
        assert_eq!(verdict.margin, Some(1.0));
    }
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::CutOff("<think>\nhm")]);
    let verdict = engine.run(job());
    assert_eq!(verdict.retained, Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning });
    // There is no place after the reasoning at which YES and NO could be compared.
    assert_eq!((verdict.margin, engine.requests.len()), (None, 1));
}

#[test]
fn failures_of_either_request_are_recorded() {
    let cases = [
        (vec![Reply::TooLong], RequestFailure::ContextExceeded { needed: 20_000, limit: 10_000 }),
        (vec![Reply::Fails("no")], RequestFailure::Engine { message: "no".to_owned() }),
        (
            vec![Reply::Text("YES"), Reply::Fails("later")],
            RequestFailure::Engine { message: "later".to_owned() },
        ),
        (
            vec![Reply::Text("YES"), Reply::Text("?")],
            RequestFailure::Engine { message: "a score request was answered by something else".to_owned() },
        ),
    ];
    for (replies, failure) in cases {
        let verdict = ScriptedEngine::replies(replies).run(job());
        assert_eq!(verdict.retained, Outcome::Failed { failure });
        assert_eq!(verdict.retained.answer(), None);
    }
}

#[test]
fn verdicts_round_trip_through_json() {
    let verdict = ScriptedEngine::replies(vec![Reply::Text("YES"), scores(-0.5, -2.0)]).run(job());
    let json = serde_json::to_string(&verdict).unwrap();
    assert!(json.starts_with("{\"outcome\":\"scored\",\"answer\":true"), "{json}");
    assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
}

#[test]
fn the_model_free_check_ranks_retained_constraints_first() {
    let Some(text) = shared_labels() else { return };
    let mut retained = Vec::new();
    let mut lost = Vec::new();
    for line in text.lines() {
        let label: serde_json::Value = serde_json::from_str(line).unwrap();
        let field = |name: &str| label[name].as_str().unwrap();
        let found = containment(field("sc_text"), field("compacted"));
        let group = match label["human_retained"].as_bool().unwrap() {
            true => &mut retained,
            false => &mut lost,
        };
        group.push(found.content_words.unwrap());
    }
    assert_eq!((retained.len(), lost.len()), (11, 19));
    // The chance that a retained constraint has more of its words left than a lost one, ties counted half.
    let wins: f64 = retained
        .iter()
        .flat_map(|kept| lost.iter().map(move |gone| (kept, gone)))
        .map(|(kept, gone)| {
            if kept > gone {
                1.0
            } else if kept == gone {
                0.5
            } else {
                0.0
            }
        })
        .sum();
    let area = wins / (retained.len() * lost.len()) as f64;
    assert!(area > 0.9, "{area}");
}

fn shared_labels() -> Option<String> {
    let data = std::env::var_os("LONGWICK_SHARED_DATA").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"),
        std::path::PathBuf::from,
    );
    let path = data.join("labels/retention-30.jsonl");
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("skipped: {} is absent", path.display());
    }
    text
}
