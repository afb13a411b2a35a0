use super::*;
use crate::chat::ChatTemplate;
use crate::engine::{FinishReason, GrammarStart, RequestKind};
use crate::tasks::mock::{Reply, ScriptedEngine, grammar_start, user, without_thinking};
use crate::tasks::{
    BeforeAnswer, GenerationSettings, Outcome, ReasoningMode, RequestFailure, UnscoredReason,
};
use crate::tokenizer::{Tokenizer, tests::asset};
use crate::weights::Weights;

fn generate() -> GenerateProbe {
    GenerateProbe::new(vec![user("A or B?")], GenerationSettings::default())
}

fn choice(mode: ReasoningMode) -> ChoiceProbe {
    ChoiceProbe::new(vec![user("A or B?")], GenerationSettings::default(), mode)
}

fn scores(a: f32, b: f32) -> Reply {
    Reply::Scores(vec![vec![a], vec![b]])
}

#[test]
fn the_last_non_empty_line_is_the_letter() {
    for (answer, letter) in [
        ("A", Letter::A),
        ("b", Letter::B),
        (" \tB \n\n", Letter::B),
        ("I think\nA", Letter::A),
        ("A\nB\n", Letter::B),
        ("A\u{2028}B", Letter::B),
        ("A\rb\u{c}", Letter::B),
    ] {
        assert_eq!(read_letter(answer), Ok(letter), "{answer:?}");
    }
    for (answer, line) in [
        ("", ""),
        (" \n ", ""),
        ("A.", "A."),
        ("A\nbecause", "because"),
        ("A B", "A B"),
        ("C", "C"),
        ("AA", "AA"),
    ] {
        assert_eq!(read_letter(answer), Err(line), "{answer:?}");
    }
}

#[test]
fn a_generated_letter_is_scored_without_its_reasoning() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::Text("<think>\nA?\nB?\n</think>\n\nb")]);
    let outcome = engine.run(generate());
    assert_eq!(outcome.letter, Outcome::Scored { answer: Letter::B });
    assert_eq!((outcome.output.trim(), outcome.finish_reason), ("b", Some(FinishReason::Stop)));
    assert!(outcome.reasoning.unwrap().contains("A?"));
    assert_eq!(grammar_start(&engine.requests[0]), None);
    // As the benchmark does, a letter that stands is taken even where the output was cut off after it.
    let outcome = ScriptedEngine::replies(vec![Reply::CutOff("A\n")]).run(generate());
    assert_eq!(outcome.letter.answer(), Some(Letter::A));
}

#[test]
fn what_is_no_letter_is_unscored_with_its_reason() {
    let cases = [
        (Reply::Text("\n"), UnscoredReason::Empty),
        (Reply::Text("Both."), UnscoredReason::NotAnOption { answer: "Both.".to_owned() }),
        (Reply::CutOff("Well, I would"), UnscoredReason::CutOff),
    ];
    for (reply, reason) in cases {
        let outcome = ScriptedEngine::replies(vec![reply]).run(generate());
        assert_eq!(outcome.letter, Outcome::Unscored { reason });
    }
    let outcome = ScriptedEngine::reasoning_replies(vec![Reply::CutOff("<think>\nA")]).run(generate());
    assert_eq!(outcome.letter, Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning });
}

#[test]
fn a_prompt_past_the_context_is_a_recorded_failure() {
    let failure = RequestFailure::ContextExceeded { needed: 20_000, limit: 10_000 };
    let outcome = ScriptedEngine::replies(vec![Reply::TooLong]).run(generate());
    assert_eq!(outcome.letter, Outcome::Failed { failure: failure.clone() });
    assert_eq!(outcome.finish_reason, None);
    let outcome = ScriptedEngine::replies(vec![Reply::TooLong]).run(choice(ReasoningMode::Own));
    assert_eq!(outcome.letter, Outcome::Failed { failure });
    let outcome = ScriptedEngine::replies(vec![Reply::Fails("x")]).run(generate());
    assert_eq!(
        outcome.letter,
        Outcome::Failed { failure: RequestFailure::Engine { message: "x".to_owned() } }
    );
}

#[test]
fn letters_are_tokenised_with_their_context() {
    let mut engine = ScriptedEngine::replies(vec![scores(-2.0, -1.0)]);
    let outcome = engine.run(choice(ReasoningMode::Own));
    assert_eq!((outcome.letter.answer(), outcome.before), (Some(Letter::B), Some(BeforeAnswer::Nothing)));
    // "\nA" is one token of the test vocabulary and "\nB" are two, so the fork point is before the line break.
    let RequestKind::Score { continuations } = &engine.requests[0].kind else {
        panic!("no score request");
    };
    let letters = crate::tasks::mock::tokenizer();
    let texts: Vec<Vec<String>> =
        continuations.iter().map(|ids| ids.iter().map(|&id| letters.decode(&[id])).collect()).collect();
    assert_eq!(texts, [vec!["\nA"], vec!["\n", "B"]]);
    assert!(engine.prompt(0).ends_with("<|im_start|>assistant"), "{}", engine.prompt(0));
}

#[test]
fn a_tie_goes_to_a() {
    let outcome = ScriptedEngine::replies(vec![scores(-1.0, -1.0)]).run(choice(ReasoningMode::Own));
    assert_eq!(outcome.letter.answer(), Some(Letter::A));
    assert_eq!(outcome.scores.unwrap().choices[0].probability, 0.5);
}

#[test]
fn a_reasoning_model_is_scored_after_its_own_reasoning() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![
        Reply::Text("<think>\nB it is.\n</think>\n\nB"),
        scores(-5.0, -0.1),
    ]);
    let outcome = engine.run(choice(ReasoningMode::Own));
    assert_eq!(
        (outcome.letter.answer(), outcome.before),
        (Some(Letter::B), Some(BeforeAnswer::OwnReasoning))
    );
    assert!(matches!(grammar_start(&engine.requests[0]), Some(GrammarStart::After(_))));
    let prompt = engine.prompt(1);
    assert!(prompt.contains("<|im_start|>assistant\n<think>\nB it is.\n</think>"), "{prompt}");
    assert!(outcome.reasoning.unwrap().contains("B it is."));
}

#[test]
fn a_reasoning_model_that_answers_at_once_is_scored_at_once() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::Text("B"), scores(-5.0, -0.1)]);
    let outcome = engine.run(choice(ReasoningMode::Own));
    assert_eq!((outcome.letter.answer(), outcome.before), (Some(Letter::B), Some(BeforeAnswer::Nothing)));
}

#[test]
fn or_after_a_closed_empty_one() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![scores(-0.5, -0.7)]);
    let outcome = engine.run(choice(ReasoningMode::ClosedEmpty));
    assert_eq!(
        (outcome.letter.answer(), outcome.before),
        (Some(Letter::A), Some(BeforeAnswer::ClosedEmptyReasoning))
    );
    assert!(engine.prompt(0).contains("</think>"), "{}", engine.prompt(0));
    // Where the rendering closed it there is nothing left to close.
    let mut engine = ScriptedEngine::reasoning_replies(vec![scores(-0.5, -0.7)]);
    let probe = ChoiceProbe::new(vec![user("?")], without_thinking(), ReasoningMode::ClosedEmpty);
    assert_eq!(engine.run(probe).before, Some(BeforeAnswer::Nothing));
}

#[test]
fn unfinished_reasoning_leaves_nothing_to_score() {
    let mut engine = ScriptedEngine::reasoning_replies(vec![Reply::CutOff("<think>\nA or")]);
    let outcome = engine.run(choice(ReasoningMode::Own));
    assert_eq!(outcome.letter, Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning });
    assert_eq!((outcome.scores, engine.requests.len()), (None, 1));
}

#[test]
fn a_history_that_spells_special_tokens_is_scored_as_it_was_rendered() {
    let mut engine = ScriptedEngine::replies(vec![scores(-2.0, -1.0)]);
    let probe = ChoiceProbe::new(
        vec![user("text <|im_end|> text")],
        GenerationSettings::default(),
        ReasoningMode::Own,
    );
    engine.run(probe);
    let ends = engine.requests[0].prompt.iter().filter(|&&id| id == 258).count();
    assert_eq!(ends, 1, "the user's text must not have ended the turn");
}

#[test]
fn outcomes_round_trip_through_json() {
    let outcome = ScriptedEngine::replies(vec![Reply::Text("Both.")]).run(generate());
    let json = serde_json::to_string(&outcome).unwrap();
    assert!(
        json.starts_with(
            "{\"outcome\":\"unscored\",\"reason\":{\"kind\":\"not_an_option\",\"answer\":\"Both.\"}"
        ),
        "{json}"
    );
    assert_eq!(serde_json::from_str::<ProbeOutcome>(&json).unwrap(), outcome);
    let outcome = ScriptedEngine::replies(vec![scores(-2.0, -1.0)]).run(choice(ReasoningMode::Own));
    let json = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<ChoiceOutcome>(&json).unwrap(), outcome);
}

#[test]
fn a_template_that_opens_the_reasoning_is_read_from_its_middle() {
    let replies = || vec![Reply::Text("B then.\n</think>\n\nB"), scores(-3.0, -1.0)];
    let outcome = ScriptedEngine::open_reasoning_replies(replies()).run(generate());
    assert_eq!(outcome.letter.answer(), Some(Letter::B));
    assert_eq!(outcome.reasoning.as_deref().map(str::trim), Some("B then."));
    let mut engine = ScriptedEngine::open_reasoning_replies(replies());
    let outcome = engine.run(choice(ReasoningMode::Own));
    assert_eq!(outcome.before, Some(BeforeAnswer::OwnReasoning));
    assert!(engine.prompt(1).contains("assistant\n<think>\nB then.\n</think>\n"), "{}", engine.prompt(1));
    let mut engine = ScriptedEngine::open_reasoning_replies(vec![scores(-1.0, -3.0)]);
    engine.run(choice(ReasoningMode::ClosedEmpty));
    assert!(engine.prompt(0).contains("assistant\n<think>\n\n</think>"), "{}", engine.prompt(0));
    // Cut off without an end, all of it is reasoning, also where its last line looks like an answer.
    for reply in [Reply::CutOff("A\nB"), Reply::Text("A\nB")] {
        let outcome = ScriptedEngine::open_reasoning_replies(vec![reply]).run(generate());
        assert_eq!(outcome.letter, Outcome::Unscored { reason: UnscoredReason::UnfinishedReasoning });
    }
}

#[test]
fn letters_follow_the_rendered_prompt_of_real_models() {
    for name in ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"] {
        let Some(path) = asset(name) else { continue };
        let weights = Weights::open(&path).unwrap();
        let tokenizer = Tokenizer::from_weights(&weights).unwrap();
        let template = ChatTemplate::from_weights(&weights, &tokenizer).unwrap();
        let mut engine = ScriptedEngine::of(tokenizer.clone(), template, |_, request| match request.kind {
            RequestKind::Score { .. } => scores(-2.0, -1.0),
            _ => Reply::Text("A"),
        });
        // The same messages once generated from and once scored after.
        let messages = || vec![user("Say A or B. <|im_end|> <eos>"), user("Now.")];
        engine.run(GenerateProbe::new(messages(), GenerationSettings::default()));
        let outcome =
            engine.run(ChoiceProbe::new(messages(), GenerationSettings::default(), ReasoningMode::Own));
        assert_eq!(outcome.letter.answer(), Some(Letter::B), "{name}: {:?}", outcome.letter);
        let rendered = &engine.requests[0].prompt;
        let RequestKind::Score { continuations } = &engine.requests[1].kind else {
            panic!("no score request");
        };
        let prompt = &engine.requests[1].prompt;
        // The fork may lie before the prompt's end, where a letter joins its last token, but never by much.
        assert!(rendered.starts_with(prompt) && prompt.len() + 2 >= rendered.len(), "{name}");
        let rest = tokenizer.decode(&rendered[prompt.len()..]);
        for (ids, letter) in continuations.iter().zip(["A", "B"]) {
            assert_eq!(tokenizer.decode(ids), format!("{rest}{letter}"), "{name}");
        }
    }
}
