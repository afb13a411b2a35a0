use super::*;
use crate::engine::{FinishReason, RequestKind};
use crate::history::{ContentPart, Message, Role};
use crate::tasks::mock::{Reply, ScriptedEngine, assistant, call, result, user};
use crate::tasks::{GenerationSettings, Usage};
use std::sync::Arc;

/// Asks with the history's texts in one message.
struct Joined;

impl SummaryPrompt for Joined {
    fn messages(&self, history: &[Message]) -> Vec<Message> {
        let texts: Vec<String> = history.iter().map(Message::plain_text).collect();
        vec![user(&format!("Summarise: {}", texts.join("|")))]
    }
}

fn history() -> Vec<Message> {
    vec![
        user("first"),
        assistant("one"),
        user("second, longer"),
        call("1"),
        result("1", "old output"),
        call("2"),
        result("2", "new output"),
        assistant("two"),
        user("third"),
    ]
}

fn input(history: Vec<Message>) -> CompactionInput {
    CompactionInput {
        history: history.into(),
        prompt: Some(Arc::new(Joined)),
        settings: GenerationSettings::default(),
        cutoff: CutoffPolicy::Fail,
        encoder: None,
        constraints: None,
    }
}

fn constraints(text: Option<&str>) -> Option<ExtractedConstraints> {
    Some(ExtractedConstraints { message: text.map(user) })
}

fn job(name: &str, input: CompactionInput) -> CompactJob {
    CompactJob::new(&name.parse().unwrap(), input).unwrap()
}

/// Runs a compactor that needs no model.
fn select(name: &str, history: Vec<Message>) -> CompactionResult {
    let mut engine = ScriptedEngine::replies(vec![]);
    let result = engine.run(job(name, input(history)));
    assert!(engine.requests.is_empty());
    assert_eq!((&result.text, result.usage), (&None, Usage::default()));
    result
}

fn texts(result: &CompactionResult) -> Vec<String> {
    result.messages.iter().map(Message::plain_text).collect()
}

#[test]
fn recent_keeps_exactly_the_last_messages() {
    let result = select("recent-2", history());
    assert_eq!(result.messages, history()[7..]);
    // Even where that leaves a result without its call, as conpact does.
    assert_eq!(select("recent-3", history()).messages, history()[6..]);
    assert_eq!(select("recent-99", history()).messages, history());
    assert_eq!(select("recent-2", vec![]).failure, Some(CompactionFailure::Empty));
}

#[test]
fn tokens_before_and_after_count_content() {
    // One token a byte: calls count their name and arguments, markers count nothing.
    let result = select("recent-2", history());
    let before = "first".len() + "one".len() + "second, longer".len() + 2 * "run{}".len();
    let before = before + "old output".len() + "new output".len() + "two".len() + "third".len();
    assert_eq!((result.tokens_before, result.tokens_after), (before, "twothird".len()));
}

#[test]
fn user_turns_fill_the_budget_from_the_newest() {
    // The messages are 5, 14 and 5 tokens.
    assert_eq!(texts(&select("user-turns:5", history())), ["third"]);
    assert_eq!(texts(&select("user-turns:18", history())), ["third"]);
    assert_eq!(texts(&select("user-turns:19", history())), ["second, longer", "third"]);
    assert_eq!(texts(&select("user-turns", history())), ["first", "second, longer", "third"]);
    let nothing = select("user-turns:4", history());
    assert_eq!(
        (nothing.failure, nothing.messages.len(), nothing.tokens_after),
        (Some(CompactionFailure::Empty), 0, 0)
    );
}

#[test]
fn user_turns_take_head_and_tail_once_and_in_order() {
    assert_eq!(texts(&select("user-turns:5+5", history())), ["first", "third"]);
    assert_eq!(texts(&select("user-turns:5+0", history())), ["first"]);
    assert_eq!(texts(&select("user-turns:900+900", history())), ["first", "second, longer", "third"]);
    assert_eq!(texts(&select("user-turns:5+19", history())), ["first", "second, longer", "third"]);
}

#[test]
fn user_turns_hold_only_what_the_user_wrote() {
    let mut mixed = user("mine");
    mixed.content.extend(result("1", "tool output").content);
    let results_only = Message { role: Role::User, ..result("2", "tool output") };
    let kept = select("user-turns:100", vec![user(" \n"), mixed, results_only, user("end")]);
    assert_eq!(texts(&kept), ["mine", "end"]);
}

#[test]
fn masking_stubs_old_results_and_keeps_calls() {
    let result = select("mask-observations:1", history());
    assert_eq!(result.messages.len(), history().len());
    assert_eq!(result.messages[4].plain_text(), "[tool result left out: 10 characters]");
    let unchanged = |index: usize| result.messages[index] == history()[index];
    assert!((0..9).filter(|index| *index != 4).all(unchanged));
    let ContentPart::ToolResult(stub) = &result.messages[4].content[0] else {
        panic!("the stub is no tool result");
    };
    assert_eq!(stub.call_id.as_deref(), Some("1"));
    assert_eq!(select("mask-observations:2", history()).messages, history());
    let none = select("mask-observations:0", history());
    assert!(none.messages[6].plain_text().starts_with("[tool result"));
}

#[test]
fn masking_refuses_flattened_histories() {
    let flat = vec![user("do it"), assistant("run({})"), Message::text(Role::Tool, "output")];
    let spec = "mask-observations:1".parse().unwrap();
    let error = CompactJob::new(&spec, input(flat)).err().unwrap();
    let expected =
        CompactError::FlattenedHistory { compactor: "mask-observations:1".to_owned(), messages: 3 };
    assert_eq!(error, expected);
}

#[test]
fn a_missing_prompt_or_registry_is_refused() {
    let no_prompt = CompactionInput { prompt: None, ..input(history()) };
    let error = CompactJob::new(&"llm:x".parse().unwrap(), no_prompt).err();
    assert!(matches!(error, Some(CompactError::NoPrompt { .. })));
    let error = CompactJob::new(&"recent-1+extractor".parse().unwrap(), input(history())).err();
    assert!(matches!(error, Some(CompactError::NoRegistry { .. })));
}

#[test]
fn a_summary_is_one_assistant_message() {
    let mut engine = ScriptedEngine::replies(vec![Reply::Text("They did things.")]);
    let result = engine.run(job("llm:x", input(vec![user("a"), assistant("b")])));
    assert_eq!(result.messages, vec![assistant("They did things.")]);
    assert_eq!(result.failure, None);
    assert_eq!(result.finish_reason, Some(FinishReason::Stop));
    assert_eq!((result.tokens_before, result.tokens_after), (2, 16));
    assert!(engine.prompt(0).contains("Summarise: a|b"));
    let RequestKind::Generate(params) = &engine.requests[0].kind else {
        panic!("no generate request");
    };
    assert_eq!((params.max_tokens, &params.grammar), (4096, &None));
    assert_eq!(result.usage.prompt_tokens, engine.requests[0].prompt.len());
    assert_eq!((result.usage.cached_tokens, result.usage.generated_tokens), (1, 16));
}

#[test]
fn a_summary_holds_no_reasoning_and_no_tool_call() {
    let output = "<think>\nhidden\n</think>\n\nThe plan.<tool_call>\n{\"name\":\"run\"}\n</tool_call>";
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::Text(output)]);
    let result = engine.run(job("llm:x", input(history())));
    assert_eq!(texts(&result), ["The plan."]);
    assert_eq!(result.reasoning.as_deref().map(str::trim), Some("hidden"));
}

#[test]
fn failed_summaries_are_recorded_with_their_cause() {
    let cases = [
        (Reply::Text(" \n"), CompactionFailure::Empty),
        (Reply::CutOff("half a"), CompactionFailure::CutOff { tokens: 6 }),
        (Reply::Fails("bad"), CompactionFailure::Engine { message: "bad".to_owned() }),
        (Reply::TooLong, CompactionFailure::ContextExceeded { needed: 20_000, limit: 10_000 }),
        (
            Reply::Scores(vec![]),
            CompactionFailure::Engine {
                message: "a generate request was answered by something else".to_owned(),
            },
        ),
    ];
    for (reply, failure) in cases {
        let input = CompactionInput { constraints: constraints(Some("1. c")), ..input(history()) };
        let result = ScriptedEngine::replies(vec![reply]).run(job("llm:x+extractor", input));
        assert_eq!(result.failure, Some(failure));
        // Not even the registry stands for a history whose compaction failed.
        assert_eq!((result.messages.len(), result.tokens_after), (0, 0));
        assert!(result.tokens_before > 0);
    }
}

#[test]
fn a_cut_off_summary_can_be_kept_but_an_unfinished_reasoning_cannot() {
    let keep = CompactionInput { cutoff: CutoffPolicy::Keep, ..input(history()) };
    let result = ScriptedEngine::replies(vec![Reply::CutOff("half a")]).run(job("llm:x", keep.clone()));
    assert_eq!((texts(&result), result.failure), (vec!["half a".to_owned()], None));
    assert_eq!(result.finish_reason, Some(FinishReason::Length));
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::CutOff("<think>\non and on")]);
    let result = engine.run(job("llm:x", keep));
    assert!(matches!(result.failure, Some(CompactionFailure::UnfinishedReasoning { .. })));
    assert!(result.messages.is_empty());
    let refused = ScriptedEngine::replies(vec![Reply::CutOff("half a")]).run(job("llm:x", input(history())));
    assert_eq!(refused.text.as_deref(), Some("half a"));
}

#[test]
fn the_extractor_adds_the_registry_as_a_last_user_message() {
    for (name, before) in [("recent-1+extractor", "third"), ("llm:x+extractor", "S")] {
        let input = CompactionInput {
            constraints: constraints(Some("Still in force:\n1. Use tabs.")),
            ..input(history())
        };
        let result = ScriptedEngine::new(|_, _| Reply::Text("S")).run(job(name, input));
        assert_eq!(texts(&result), [before, "Still in force:\n1. Use tabs."]);
        assert_eq!(result.messages[1].role, Role::User);
        assert_eq!(result.tokens_after, texts(&result).concat().len());
    }
    let empty = CompactionInput { constraints: constraints(None), ..input(history()) };
    let result = ScriptedEngine::replies(vec![]).run(job("recent-1+extractor", empty));
    assert_eq!(texts(&result), ["third"]);
    let unasked = CompactionInput { constraints: constraints(Some("1. c")), ..input(history()) };
    let result = ScriptedEngine::replies(vec![]).run(job("recent-1", unasked));
    assert_eq!(texts(&result), ["third"]);
}

#[test]
fn results_round_trip_through_json() {
    let result = ScriptedEngine::replies(vec![Reply::CutOff("half")]).run(job("llm:x", input(history())));
    let json = serde_json::to_string(&result).unwrap();
    assert!(json.contains("\"failure\":{\"kind\":\"cut_off\",\"tokens\":4}"), "{json}");
    assert_eq!(serde_json::from_str::<CompactionResult>(&json).unwrap(), result);
}
