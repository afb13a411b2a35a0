use super::*;
use crate::decode::{GrammarFactory, Vocabulary};
use crate::engine::{GrammarStart, RequestKind};
use crate::history::Message;
use crate::tasks::mock::{Reply, ScriptedEngine, assistant, call, grammar_start, result, tokenizer, user};
use crate::tasks::{GenerationSettings, RequestFailure};
use std::sync::Arc;

/// Shows all a prompt is given.
struct ShowAll;

impl TurnPrompt for ShowAll {
    fn messages(&self, turn: &Turn<'_>) -> Vec<Message> {
        let registry = turn.registry.texts().join("|");
        vec![user(&format!("U={} A={:?} R={registry};", turn.user_message, turn.assistant_message))]
    }
}

fn job(history: Vec<Message>, settings: ExtractSettings) -> ExtractJob {
    ExtractJob::new(history.into(), Arc::new(ShowAll), settings)
}

fn paper() -> ExtractSettings {
    ExtractSettings { parse: ExtractionParse::Paper, ..ExtractSettings::default() }
}

fn found(text: &str, evidence: &str) -> FoundConstraint {
    FoundConstraint { text: text.to_owned(), evidence: evidence.to_owned() }
}

#[test]
fn each_user_turn_sees_the_assistant_before_it_and_the_registry() {
    let history = vec![
        user("Always use tabs, {registry}."),
        assistant("Fine."),
        call("1"),
        result("1", "output"),
        user("  "),
        user("Thanks."),
        assistant("Done."),
        user("Mail nobody."),
    ];
    let mut engine = ScriptedEngine::replies(vec![
        Reply::Text(r#"{"scs":[{"text":"Use tabs.","evidence":"Always use  tabs"}]}"#),
        Reply::Text(r#"{"scs":[{"text":"Use tabs.","evidence":"x"}]}"#),
        Reply::Text(
            r#"{"scs":[{"text":"Send no mail.","evidence":"never mail"},{"text":" Use tabs. ","evidence":""}]}"#,
        ),
    ]);
    let extraction = engine.run(job(history, ExtractSettings::default()));
    let expected = [("Use tabs.", 0, true), ("Send no mail.", 7, false)];
    let registered: Vec<(&str, usize, bool)> = extraction
        .registry
        .constraints
        .iter()
        .map(|one| (one.text.as_str(), one.message, one.evidence_found))
        .collect();
    assert_eq!(registered, expected);
    let turns: Vec<(usize, usize, usize)> =
        extraction.turns.iter().map(|turn| (turn.message, turn.found, turn.added)).collect();
    assert_eq!(turns, [(0, 1, 1), (5, 1, 0), (7, 2, 1)]);
    assert_eq!(extraction.failed_turns(), 0);
    let shown = |index: usize| engine.prompt(index);
    assert!(shown(0).contains("U=Always use tabs, {registry}. A=None R=;"), "{}", shown(0));
    // The assistant message right before the turn is a bare call, so no text is shown.
    assert!(shown(1).contains("U=Thanks. A=None R=Use tabs.;"), "{}", shown(1));
    assert!(shown(2).contains("U=Mail nobody. A=Some(\"Done.\") R=Use tabs.;"), "{}", shown(2));
    assert_eq!(extraction.turns[0].usage.prompt_tokens, engine.requests[0].prompt.len());
}

#[test]
fn only_the_last_tokens_of_the_assistant_message_are_shown() {
    let settings = ExtractSettings { assistant_tokens: 4, ..ExtractSettings::default() };
    let mut engine = ScriptedEngine::new(|_, _| Reply::Text("{\"scs\":[]}"));
    // One token a byte: the fourth from the end is the second byte of é, which is left out.
    engine.run(job(vec![assistant("0123é456"), user("x"), assistant("é45"), user("y")], settings));
    assert!(engine.prompt(0).contains(" A=Some(\"456\") R="), "{}", engine.prompt(0));
    assert!(engine.prompt(1).contains(" A=Some(\"é45\") R="), "{}", engine.prompt(1));
}

#[test]
fn a_failed_turn_is_recorded_and_the_next_goes_on() {
    let good = r#"{"scs":[{"text":"c","evidence":"five"}]}"#;
    let mut engine = ScriptedEngine::replies(vec![
        Reply::CutOff(good),
        Reply::Text("no json"),
        Reply::TooLong,
        Reply::Fails("broken grammar"),
        Reply::Text(good),
    ]);
    let history = ["one", "two", "three", "four", "five"].map(user).to_vec();
    let extraction = engine.run(job(history, ExtractSettings::default()));
    let failures: Vec<Option<TurnFailure>> =
        extraction.turns.iter().map(|turn| turn.failure.clone()).collect();
    let request = |failure| Some(TurnFailure::Request { failure });
    let expected = vec![
        // Under the grammar nothing is taken from an answer that was cut off, even if it happens to be whole.
        Some(TurnFailure::CutOff),
        Some(TurnFailure::Unparseable { answer: "no json".to_owned() }),
        request(RequestFailure::ContextExceeded { needed: 20_000, limit: 10_000 }),
        request(RequestFailure::Engine { message: "broken grammar".to_owned() }),
        None,
    ];
    assert_eq!(failures, expected);
    assert_eq!(extraction.failed_turns(), 4);
    assert_eq!(extraction.registry.constraints.len(), 1);
    assert!(extraction.registry.constraints[0].evidence_found);
    let json = serde_json::to_string(&extraction).unwrap();
    assert_eq!(serde_json::from_str::<Extraction>(&json).unwrap(), extraction);
}

#[test]
fn a_history_without_user_turns_needs_no_model() {
    let extraction =
        ScriptedEngine::replies(vec![]).run(job(vec![assistant("x"), user("")], ExtractSettings::default()));
    assert_eq!(extraction, Extraction::default());
}

#[test]
fn the_grammar_starts_where_the_answer_starts() {
    let answer = || Reply::Text("{\"scs\":[]}");
    let mut engine = ScriptedEngine::replies(vec![answer()]);
    engine.run(job(vec![user("x")], ExtractSettings::default()));
    assert_eq!(grammar_start(&engine.requests[0]), Some(GrammarStart::Immediately));

    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::Text(
        "<think>\nhm\n</think>\n\n{\"scs\":[{\"text\":\"c\",\"evidence\":\"x\"}]}",
    )]);
    let extraction = engine.run(job(vec![user("x")], ExtractSettings::default()));
    assert!(
        matches!(grammar_start(&engine.requests[0]), Some(GrammarStart::After(end)) if end.contains("</think>"))
    );
    assert_eq!(extraction.registry.constraints.len(), 1);

    let mut engine = ScriptedEngine::replies(vec![answer()]);
    engine.run(job(vec![user("x")], paper()));
    assert_eq!(grammar_start(&engine.requests[0]), None);
}

#[test]
fn unfinished_reasoning_fails_the_turn() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::CutOff("<think>\nfor ever")]);
    let extraction = engine.run(job(vec![user("x")], paper()));
    assert_eq!(extraction.turns[0].failure, Some(TurnFailure::UnfinishedReasoning));
}

#[test]
fn the_paper_reading_takes_what_is_whole() {
    let mut engine = ScriptedEngine::replies(vec![
        Reply::CutOff("```json\n{\"scs\":[{\"text\":\"c\"}]}\n``` and so"),
        Reply::CutOff("{\"scs\":[{\"text\":"),
        Reply::Text("nothing here"),
    ]);
    let extraction = engine.run(job(vec![user("a"), user("b"), user("c")], paper()));
    assert_eq!(extraction.registry.texts(), ["c"]);
    assert_eq!(extraction.turns[1].failure, Some(TurnFailure::CutOff));
    assert!(matches!(extraction.turns[2].failure, Some(TurnFailure::Unparseable { .. })));
}

#[test]
fn settings_reach_the_request() {
    let generation = GenerationSettings { max_tokens: 192, ..GenerationSettings::default() };
    let settings = ExtractSettings { generation, ..ExtractSettings::default() };
    let mut engine = ScriptedEngine::new(|_, _| Reply::Text("{\"scs\":[]}"));
    engine.run(job(vec![user("x")], settings));
    assert!(matches!(&engine.requests[0].kind, RequestKind::Generate(params) if params.max_tokens == 192));
    let read: ExtractSettings =
        toml::from_str("parse = \"paper\"\n[generation]\nmax_tokens = 192\n").unwrap();
    assert_eq!(
        (read.parse, read.generation.max_tokens, read.assistant_tokens),
        (ExtractionParse::Paper, 192, 2_000)
    );
    assert!(toml::from_str::<ExtractSettings>("parser = \"paper\"").is_err());
}

#[test]
fn paper_parse() {
    let one = |text: &str| Some(vec![found(text, "e")]);
    let cases = [
        (r#"{"scs":[{"text":"a","evidence":"e"}]}"#, one("a")),
        ("x ```json\n{\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}\n``` y", one("a")),
        ("```\n{\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}\n```", one("a")),
        // A fence goes before braces that come later.
        ("```json\n{\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}\n``` {\"scs\":[]}", one("a")),
        // An open fence is no fence, but its braces count.
        ("```json\n{\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}", one("a")),
        ("{\"scs\":[]} then {\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}.", one("a")),
        ("{ not json } {\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]} {", one("a")),
        ("{\"scs\":[]}", Some(vec![])),
        ("{\"scs\":[{\"text\":\" \"},{\"evidence\":\"e\"},7,{\"text\":5}]}", Some(vec![])),
        ("{\"other\":[]}", None),
        ("{\"scs\":{}}", None),
        ("[1]", None),
        ("", None),
        ("{\"scs\":[", None),
    ];
    for (answer, expected) in cases {
        assert_eq!(parse_paper(answer), expected, "{answer}");
    }
}

#[test]
fn bound_answers_are_json_alone() {
    assert_eq!(parse_answer("{\"scs\":[{\"text\":\"a\",\"evidence\":\"e\"}]}"), Some(vec![found("a", "e")]));
    assert_eq!(parse_answer("x {\"scs\":[]}"), None);
}

#[test]
fn the_grammar_compiles_and_bounds_the_answer() {
    let factory = GrammarFactory::from_vocabulary(&Vocabulary::from_tokenizer(&tokenizer())).unwrap();
    let limits = ExtractionLimits { max_items: 1, max_text: 2, max_evidence: 0 };
    let mut state = factory.start(&limits.grammar()).unwrap();
    for byte in br#"{"scs":[{"text":"ab","evidence":""}]}"# {
        let token = tokenizer()
            .encode(std::str::from_utf8(&[*byte]).unwrap(), crate::tokenizer::SpecialTokens::AsText)
            .unwrap();
        assert!(state.allowed().unwrap().is_allowed(token[0]));
        state.accept(token[0]).unwrap();
    }
    assert!(state.is_finished());
    factory.start(&ExtractionLimits::default().grammar()).unwrap();
}

#[test]
fn a_registry_drops_duplicates_and_lists_one_line_a_constraint() {
    let mut registry = ConstraintRegistry::default();
    assert_eq!(registry.add(vec![found("a\n b", "A\nB"), found("a\n b", "")], 3, "x A  B y"), 1);
    assert!(registry.constraints[0].evidence_found);
    assert_eq!(registry.texts(), ["a b"]);
}

#[test]
fn the_longest_legal_answer_fits_its_tokens() {
    for max_tokens in [64, 96, 192, 256, 512, 1024, 4096] {
        let limits = ExtractionLimits::for_tokens(max_tokens);
        let constraint = serde_json::json!({
            "text": "x".repeat(limits.max_text),
            "evidence": "x".repeat(limits.max_evidence),
        });
        let answer = serde_json::json!({"scs": vec![constraint; limits.max_items]}).to_string();
        // Three characters a token, as the limits count: English prose has more.
        assert!(answer.len() <= max_tokens * 3, "{max_tokens}: {} characters under {limits:?}", answer.len());
    }
    assert_eq!(ExtractionLimits::for_tokens(4096), ExtractionLimits::WIDEST);
    let few = ExtractionLimits::for_tokens(192);
    assert_eq!((few.max_items, few.max_text, few.max_evidence), (2, 120, 120));
    let none = ExtractionLimits::for_tokens(0);
    assert_eq!((none.max_items, none.max_text, none.max_evidence), (1, 1, 1));
}
