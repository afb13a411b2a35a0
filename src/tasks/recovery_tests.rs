//! A malformed Harmony stream: every task reads it and says so in its output.

use super::compact::{CompactJob, CompactionInput, CutoffPolicy, SummaryPrompt};
use super::extract::{ExtractJob, ExtractSettings, ExtractionParse, Turn, TurnPrompt};
use super::judge::JudgeJob;
use super::mock::{Reply, ScriptedEngine, tokenizer, user};
use super::probe::{ChoiceProbe, GenerateProbe, Letter};
use super::{GenerationSettings, Job, Outcome, ReasoningMode};
use crate::chat::ChatTemplate;
use crate::chat::harmony::Recovery;
use crate::history::Message;
use std::sync::Arc;

/// Runs a job on a model of Harmony messages that answers so.
fn run<J: Job>(job: J, replies: Vec<Reply>) -> J::Output {
    let mut replies = replies.into_iter();
    let script =
        move |_: usize, _: &crate::engine::Request| replies.next().expect("more requests than replies");
    ScriptedEngine::of(tokenizer(), ChatTemplate::harmony(), script).run(job)
}

/// What stands in the payload that a run keeps.
fn kept(output: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(output).unwrap()["recoveries"].clone()
}

struct Ask;

impl SummaryPrompt for Ask {
    fn messages(&self, _: &[Message]) -> Vec<Message> {
        vec![user("Summarise.")]
    }
}

impl TurnPrompt for Ask {
    fn messages(&self, _: &Turn<'_>) -> Vec<Message> {
        vec![user("Extract.")]
    }
}

#[test]
fn a_probe_keeps_the_last_final_message_and_what_was_recovered() {
    let probe = || GenerateProbe::new(vec![user("A or B?")], GenerationSettings::default());
    let several = "<|channel|>final<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>No.<|channel|>final\
        <|message|>B<|return|>";
    let outcome = run(probe(), vec![Reply::Text(several)]);
    assert_eq!((outcome.letter.answer(), outcome.output.as_str()), (Some(Letter::B), "B"));
    assert_eq!(outcome.recoveries, [Recovery::UnclosedMessage]);
    assert_eq!(kept(&outcome), serde_json::json!(["unclosed_message"]));
    assert_eq!(
        serde_json::from_value::<super::probe::ProbeOutcome>(serde_json::to_value(&outcome).unwrap())
            .unwrap(),
        outcome
    );

    let whole = run(probe(), vec![Reply::Text("<|channel|>final<|message|>B<|return|>")]);
    assert!(whole.recoveries.is_empty() && kept(&whole).is_null());
}

#[test]
fn a_scored_letter_and_a_verdict_keep_what_was_recovered() {
    let stray = "<|channel|>analysis<|message|>Hm.<|end|><|return|><|start|>assistant<|channel|>final<|message|>YES<|return|>";
    let scores = || Reply::Scores(vec![vec![-1.0], vec![-2.0]]);
    let recovered = [Recovery::StrayMarker { marker: "<|return|>".to_owned() }];
    let messages = || vec![user("Still there?")];
    let verdict =
        run(JudgeJob::new(messages(), GenerationSettings::default()), vec![Reply::Text(stray), scores()]);
    assert_eq!((verdict.retained.answer(), &verdict.recoveries[..]), (Some(true), &recovered[..]));
    let choice = ChoiceProbe::new(messages(), GenerationSettings::default(), ReasoningMode::Own);
    let choice = run(choice, vec![Reply::Text(stray), scores()]);
    assert_eq!((choice.letter.answer(), &choice.recoveries[..]), (Some(Letter::A), &recovered[..]));
    assert_eq!(kept(&verdict), serde_json::json!([{"stray_marker": {"marker": "<|return|>"}}]));
    assert_eq!(kept(&choice), kept(&verdict));
}

#[test]
fn a_summary_and_a_turn_keep_what_was_recovered() {
    let input = CompactionInput {
        history: vec![user("Hello.")].into(),
        prompt: Some(Arc::new(Ask)),
        settings: GenerationSettings::default(),
        cutoff: CutoffPolicy::Fail,
        encoder: None,
        constraints: None,
    };
    let job = CompactJob::new(&"llm:x".parse().unwrap(), input).unwrap();
    let summary = run(job, vec![Reply::Text("<|channel|>final They met.<|end|>")]);
    assert_eq!((summary.messages[0].plain_text().as_str(), &summary.failure), ("They met.", &None));
    assert_eq!(summary.recoveries, [Recovery::MissingMessageMarker]);

    let settings = ExtractSettings { parse: ExtractionParse::Paper, ..ExtractSettings::default() };
    let job = ExtractJob::new(vec![user("Use tabs."), user("Thanks.")].into(), Arc::new(Ask), settings);
    let answers = vec![
        Reply::Text("<|channel|>final<|message|>{\"scs\":[{\"text\":\"Use tabs.\"}]}<|end|>then<|message|>"),
        Reply::Text("<|channel|>final<|message|>{\"scs\":[]}<|return|>"),
    ];
    let extraction = run(job, answers);
    assert_eq!(extraction.failed_turns(), 0, "{extraction:?}");
    let recovered: Vec<usize> = extraction.turns.iter().map(|turn| turn.recoveries.len()).collect();
    assert!(recovered[0] > 0 && recovered[1] == 0, "{extraction:?}");
    assert_eq!(extraction.turns[0].recoveries[0], Recovery::MissingStart);
}

/// A stream that holds no answer at all is unscored with a reason, and says what was left out.
#[test]
fn a_stream_without_an_answer_is_unscored_and_recorded() {
    let probe = GenerateProbe::new(vec![user("A or B?")], GenerationSettings::default());
    let outcome = run(
        probe,
        vec![Reply::CutOff("<|channel|>analysis<|message|>So<|end|><|start|>assistant<|channel|>fi")],
    );
    assert!(matches!(outcome.letter, Outcome::Unscored { .. }), "{:?}", outcome.letter);
    let header = "assistant<|channel|>fi".to_owned();
    assert_eq!(outcome.recoveries, [Recovery::UnfinishedHeader { header }]);
}
