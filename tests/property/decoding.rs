//! Grammars, stop strings and limits on a real model, where there is a tokenizer.

use longwick::decode::Grammar;
use longwick::engine::{
    Completion, Engine, EngineError, FinishReason, GenerateParams, GrammarStart, Request, RequestKind,
    RequestOutput,
};
use longwick::ops::KvDtype;
use longwick::tokenizer::SpecialTokens;
use serde_json::{Value, json};

use crate::assets;
use crate::support::options;

fn engine() -> Option<Engine> {
    let path = assets::real_model("SmolLM2-135M-Instruct.Q4_1.gguf")?;
    Some(assets::load(&path, options(KvDtype::F32, 2, 256)))
}

fn prompt(engine: &Engine, text: &str) -> Vec<u32> {
    engine.tokenizer().unwrap().encode(text, SpecialTokens::AsText).unwrap()
}

fn generate(engine: &mut Engine, text: &str, params: GenerateParams) -> (String, Vec<u32>, FinishReason) {
    let prompt = prompt(engine, text);
    let completion = engine.run(Request::new(prompt, RequestKind::Generate(params))).unwrap();
    unpack(completion)
}

fn unpack(completion: Completion) -> (String, Vec<u32>, FinishReason) {
    match completion.output {
        RequestOutput::Generated { token_ids, text, finish_reason, .. } => (text, token_ids, finish_reason),
        other => panic!("{other:?}"),
    }
}

fn grammar(grammar: Grammar, start: GrammarStart, max_tokens: usize) -> GenerateParams {
    GenerateParams { max_tokens, grammar: Some((grammar, start)), ..GenerateParams::default() }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "rule": {"type": "string", "maxLength": 30},
            "turns": {"type": "array", "items": {"enum": ["first", "last"]}, "minItems": 1, "maxItems": 2},
            "binding": {"type": "boolean"}
        },
        "required": ["rule", "turns", "binding"],
        "additionalProperties": false
    })
}

/// Written out by hand, so that it does not share an error with the grammar.
fn check_against_schema(text: &str) {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    let object = value.as_object().expect("an object");
    assert_eq!(object.len(), 3, "{text}");
    assert!(object["rule"].as_str().expect("a string").chars().count() <= 30, "{text}");
    assert!(object["binding"].is_boolean(), "{text}");
    let turns = object["turns"].as_array().expect("an array");
    assert!((1..=2).contains(&turns.len()), "{text}");
    assert!(turns.iter().all(|turn| turn == "first" || turn == "last"), "{text}");
}

#[test]
fn json_follows_its_schema() {
    let Some(mut engine) = engine() else { return };
    for text in ["The user said: always answer in French. As JSON:", "{\"a\": [", "   \n\n"] {
        let params = grammar(Grammar::JsonSchema(schema()), GrammarStart::Immediately, 120);
        let (text, _, reason) = generate(&mut engine, text, params);
        assert_eq!(reason, FinishReason::Stop);
        check_against_schema(&text);
    }
}

/// A limit in the middle of the object cuts it off, and the reason says so.
#[test]
fn a_grammars_output_can_be_cut_off() {
    let Some(mut engine) = engine() else { return };
    let params = grammar(Grammar::JsonSchema(schema()), GrammarStart::Immediately, 4);
    let (text, ids, reason) = generate(&mut engine, "As JSON:", params);
    assert_eq!((ids.len(), reason), (4, FinishReason::Length));
    assert!(serde_json::from_str::<Value>(&text).is_err(), "{text}");
}

#[test]
fn a_choice_is_one_of_its_strings() {
    let Some(mut engine) = engine() else { return };
    let words = ["YES", "NO", "YESTERDAY"].map(str::to_owned);
    for text in ["Is the sky blue? Answer:", "Is fire cold? Answer:", "When was it? Answer:"] {
        let params = grammar(Grammar::Choice(words.to_vec()), GrammarStart::Immediately, 12);
        let (text, _, reason) = generate(&mut engine, text, params);
        assert!(words.contains(&text), "{text:?}");
        assert_eq!(reason, FinishReason::Stop);
    }
}

/// A grammar that waits leaves the text before its mark alone.
#[test]
fn a_grammar_can_begin_after_a_text() {
    let Some(mut engine) = engine() else { return };
    let free = GenerateParams { max_tokens: 24, ignore_eos: true, ..GenerateParams::default() };
    let (written, _, _) = generate(&mut engine, "Once upon a time, there", free);
    let words: Vec<&str> = written.split(' ').filter(|word| word.len() > 2).collect();
    let mark = words.get(3).expect("a few words").to_string();
    let start = GrammarStart::After(mark.clone());
    let params = GenerateParams {
        ignore_eos: true,
        ..grammar(Grammar::Choice(vec![" FIRST".to_owned(), " SECOND".to_owned()]), start, 40)
    };
    let (text, _, reason) = generate(&mut engine, "Once upon a time, there", params);
    let (before, after) = text.split_at(text.find(&mark).expect("the mark") + mark.len());
    assert!(written.starts_with(before), "{written:?}, {text:?}");
    assert_eq!(reason, FinishReason::Stop);
    // The token that completed the mark may have brought more text than the mark.
    assert!(after.ends_with(" FIRST") || after.ends_with(" SECOND"), "{text:?}");
}

/// A schema without bounds is refused before anything runs, and others go on.
#[test]
fn a_grammar_that_cannot_work_is_refused() {
    let Some(mut engine) = engine() else { return };
    let unbounded = Grammar::JsonSchema(json!({"type": "string"}));
    for wrong in [unbounded, Grammar::Choice(Vec::new()), Grammar::Regex("(".to_owned())] {
        for start in [GrammarStart::Immediately, GrammarStart::After("x".to_owned())] {
            let prompt = prompt(&engine, "Hello");
            let kind = RequestKind::Generate(grammar(wrong.clone(), start, 5));
            let error = engine.submit(Request::new(prompt, kind)).expect_err("refused");
            assert!(matches!(error, EngineError::Decode(_)), "{error:?}");
        }
    }
    assert!(!engine.has_work());
    generate(&mut engine, "Hello", GenerateParams { max_tokens: 2, ..GenerateParams::default() });
}

#[test]
fn stop_strings_cut_the_text_before_them() {
    let Some(mut engine) = engine() else { return };
    let free = GenerateParams { max_tokens: 30, ignore_eos: true, ..GenerateParams::default() };
    let (written, ids, reason) = generate(&mut engine, "Once upon a time, there", free.clone());
    assert_eq!((ids.len(), reason), (30, FinishReason::Length));
    // A stop string that begins inside one token and ends inside another.
    let middle = written.char_indices().nth(written.chars().count() / 2).expect("text").0;
    let stop: String = written[middle..].chars().take(7).collect();
    let params = GenerateParams { stop_strings: vec!["never there ###".to_owned(), stop.clone()], ..free };
    let (text, stopped, reason) = generate(&mut engine, "Once upon a time, there", params);
    assert_eq!(reason, FinishReason::Stop);
    assert_eq!(text, written[..written.find(&stop).expect("it was written")]);
    assert!(stopped.len() < 30 && ids.starts_with(&stopped));
}

/// The limit that is reached is a cut-off, and a stop id that ends an output is not part of it.
#[test]
fn a_limit_is_a_cut_off_and_a_stop_id_is_an_end() {
    let Some(mut engine) = engine() else { return };
    let chat = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n";
    let prompt = engine.tokenizer().unwrap().encode(chat, SpecialTokens::Parse).unwrap();
    let stops = engine.tokenizer().unwrap().stop_ids().to_vec();
    let params = GenerateParams { max_tokens: 200, logprobs: true, ..GenerateParams::default() };
    let request = Request::new(prompt.clone(), RequestKind::Generate(params));
    let (_, ids, reason) = unpack(engine.run(request).unwrap());
    assert_eq!(reason, FinishReason::Stop, "an instruct model ends a greeting: {ids:?}");
    assert!(!ids.is_empty() && ids.iter().all(|id| !stops.contains(id)));
    let params = GenerateParams { max_tokens: ids.len() - 1, ..GenerateParams::default() };
    let request = Request::new(prompt, RequestKind::Generate(params));
    let (_, cut, reason) = unpack(engine.run(request).unwrap());
    assert_eq!((&cut[..], reason), (&ids[..ids.len() - 1], FinishReason::Length));
}
