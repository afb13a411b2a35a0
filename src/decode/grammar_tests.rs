use super::*;
use serde_json::json;

const STOP: u32 = 300;
const OTHER_STOP: u32 = 301;
const SPECIAL: u32 = 302;

/// All single bytes (0..256), some longer tokens, two stop ids, a special token, and an id that stands for nothing.
fn vocabulary() -> Vocabulary {
    let mut token_bytes: Vec<Vec<u8>> = (0..=255u8).map(|byte| vec![byte]).collect();
    for word in ["YES", "NO", "YE", "\":\"", "{\"", "\"}", "text", " the", "\"},{\"", "é", "A"] {
        token_bytes.push(word.as_bytes().to_vec());
    }
    token_bytes.resize(300, Vec::new());
    token_bytes.extend([b"<end>".to_vec(), b"<eot>".to_vec(), b"<tool>".to_vec(), Vec::new()]);
    let mut is_special = vec![false; token_bytes.len()];
    is_special[STOP as usize] = true;
    is_special[SPECIAL as usize] = true;
    Vocabulary { token_bytes, is_special, stop_ids: vec![STOP, OTHER_STOP] }
}

fn factory() -> GrammarFactory {
    GrammarFactory::from_vocabulary(&vocabulary()).unwrap()
}

fn start(grammar: &Grammar) -> GrammarState {
    factory().start(grammar).unwrap()
}

fn schema_error(schema: serde_json::Value) -> DecodeError {
    match factory().start(&Grammar::JsonSchema(schema)) {
        Ok(_) => panic!("the schema was not refused"),
        Err(error) => error,
    }
}

/// Feeds text byte by byte; each byte must be allowed first. Returns whether the output may end there.
fn feed(state: &mut GrammarState, text: &str) -> bool {
    for &byte in text.as_bytes() {
        assert!(state.allowed().unwrap().is_allowed(u32::from(byte)), "{:?} in {text:?}", byte as char);
        state.accept(u32::from(byte)).unwrap();
    }
    state.allowed().unwrap().is_allowed(STOP)
}

/// Whether the grammar takes this whole text and may end there.
fn takes(grammar: &Grammar, text: &str) -> bool {
    let mut state = start(grammar);
    for &byte in text.as_bytes() {
        if state.is_finished() || !state.allowed().unwrap().is_allowed(u32::from(byte)) {
            return false;
        }
        state.accept(u32::from(byte)).unwrap();
    }
    state.allowed().unwrap().is_allowed(STOP)
}

fn list_schema() -> Grammar {
    Grammar::JsonSchema(json!({
        "type": "object",
        "properties": {"scs": {"type": "array", "maxItems": 2, "items": {
            "type": "object",
            "properties": {"text": {"type": "string", "maxLength": 5}},
            "required": ["text"],
            "additionalProperties": false,
        }}},
        "required": ["scs"],
        "additionalProperties": false,
    }))
}

#[test]
fn a_choice_allows_its_prefixes_in_any_tokenisation_and_then_ends() {
    let choice = Grammar::Choice(vec!["YES".into(), "NO".into()]);
    let mut state = start(&choice);
    let first = state.allowed().unwrap().to_list();
    assert_eq!(first, vec![u32::from(b'N'), u32::from(b'Y'), 256, 257, 258]);
    state.accept(258).unwrap();
    assert_eq!(state.allowed().unwrap().to_list(), vec![u32::from(b'S')]);
    state.accept(u32::from(b'S')).unwrap();
    assert!(state.is_finished());
    assert_eq!(state.allowed().unwrap().to_list(), vec![STOP, OTHER_STOP]);
    let error = state.accept(u32::from(b'S')).unwrap_err();
    assert!(matches!(error, DecodeError::Grammar { tokens: 2, .. }), "{error}");
}

#[test]
fn a_choice_that_begins_another_may_end_or_go_on() {
    let choice = Grammar::Choice(vec!["A".into(), "AB".into()]);
    let mut state = start(&choice);
    state.accept(u32::from(b'A')).unwrap();
    assert!(!state.is_finished());
    let allowed = state.allowed().unwrap();
    assert!(
        allowed.is_allowed(STOP) && allowed.is_allowed(OTHER_STOP) && allowed.is_allowed(u32::from(b'B'))
    );
    assert_eq!(allowed.num_set(), 3);
    state.accept(OTHER_STOP).unwrap();
    assert!(state.is_finished());
}

#[test]
fn duplicate_tokens_are_all_allowed() {
    // Token 266 and byte token 65 are both "A", as byte tokens and pieces are in SentencePiece vocabularies.
    let allowed = start(&Grammar::Choice(vec!["A".into()])).allowed().unwrap();
    assert_eq!(allowed.to_list(), vec![65, 266]);
}

#[test]
fn choices_are_literal() {
    let choice = Grammar::Choice(vec!["a.b/c\\d\n(é)\"#".into()]);
    assert!(takes(&choice, "a.b/c\\d\n(é)\"#"));
    assert!(!takes(&choice, "axb/c\\d\n(é)\"#"));
}

#[test]
fn a_schema_has_one_spelling_and_bounded_parts() {
    let grammar = list_schema();
    assert!(takes(&grammar, r#"{"scs":[]}"#));
    assert!(takes(&grammar, r#"{"scs":[{"text":"ab é!"},{"text":""}]}"#));
    assert!(takes(&grammar, r#"{"scs":[{"text":"a\n\""}]}"#));
    for refused in [
        r#"{ "scs":[]}"#,
        r#"{"scs": []}"#,
        r#"{"scs":[]} "#,
        r#"{"scs":[{"text":"abcdef"}]}"#,
        r#"{"scs":[{"text":"a"},{"text":"b"},{"text":"c"}]}"#,
        r#"{"scs":[{"text":"a","more":"b"}]}"#,
        r#"{}"#,
    ] {
        assert!(!takes(&grammar, refused), "{refused}");
    }
}

#[test]
fn longer_tokens_cross_the_parts_of_json() {
    let mut state = start(&list_schema());
    feed(&mut state, r#"{"scs":["#);
    for token in [260, 262, 259, 265, 264] {
        assert!(state.allowed().unwrap().is_allowed(token), "{token}");
        state.accept(token).unwrap();
    }
    assert!(feed(&mut state, r#"text":"b"}]}"#));
    assert!(state.is_finished());
}

#[test]
fn special_tokens_and_lone_bytes_are_never_text() {
    let mut state = start(&Grammar::Regex("(?s:.){0,9}".into()));
    let allowed = state.allowed().unwrap();
    assert!(!allowed.is_allowed(SPECIAL));
    assert!(!allowed.is_allowed(0xff) && !allowed.is_allowed(0x80));
    assert!(allowed.is_allowed(0xc3) && allowed.is_allowed(STOP));
    let error = state.accept(SPECIAL).unwrap_err();
    assert!(matches!(error, DecodeError::Grammar { tokens: 0, .. }));
    // A grammar that failed stays failed; it never allows everything instead.
    assert!(state.allowed().is_err() && state.accept(u32::from(b'a')).is_err() && !state.is_finished());
}

#[test]
fn a_stop_id_before_the_end_is_an_error() {
    let mut state = start(&Grammar::Choice(vec!["YES".into()]));
    state.accept(258).unwrap();
    assert!(matches!(state.accept(STOP), Err(DecodeError::Grammar { tokens: 1, .. })));
}

#[test]
fn a_regex_matches_the_whole_output() {
    let regex = Grammar::Regex("[ab]{2}/[0-9]".into());
    assert!(takes(&regex, "ab/7"));
    assert!(!takes(&regex, "a/7") && !takes(&regex, "xab/7") && !takes(&regex, "ab/77"));
}

#[test]
fn what_no_token_can_spell_is_an_error_not_a_free_output() {
    let vocabulary = Vocabulary {
        token_bytes: vec![b"a".to_vec(), b"</s>".to_vec()],
        is_special: vec![false, true],
        stop_ids: vec![1],
    };
    let mut state = GrammarFactory::from_vocabulary(&vocabulary)
        .unwrap()
        .start(&Grammar::Choice(vec!["b".into()]))
        .unwrap();
    assert!(matches!(state.allowed(), Err(DecodeError::Grammar { .. })));
}

#[test]
fn malformed_grammars_are_refused() {
    let factory = factory();
    for (grammar, expected) in [
        (Grammar::Choice(vec![]), "choice"),
        (Grammar::Choice(vec!["a".into(), String::new()]), "choice"),
        (Grammar::Regex("(".into()), "regex"),
        (Grammar::JsonSchema(json!({"type": "text"})), "JSON schema"),
        (Grammar::JsonSchema(json!(false)), "JSON schema"),
        (Grammar::JsonSchema(json!({"type": "string", "maxLength": 3, "minLength": 4})), "JSON schema"),
    ] {
        match factory.start(&grammar) {
            Err(DecodeError::GrammarCompile { kind, message }) => {
                assert_eq!(kind, expected);
                assert!(!message.is_empty());
            }
            Err(other) => panic!("{grammar:?}: {other}"),
            Ok(_) => panic!("{grammar:?} was taken"),
        }
    }
}

#[test]
fn unbounded_schemas_are_refused_with_their_place() {
    let object = |property: serde_json::Value| json!({"type": "object", "properties": {"a/b": property}, "additionalProperties": false});
    let place = "#/properties/a~1b";
    for (property, path) in [
        (json!({"type": "string"}), place.to_owned()),
        (json!({"type": "string", "pattern": "a+"}), place.to_owned()),
        (json!({"type": "string", "maxLength": 100_000}), place.to_owned()),
        (json!({"type": "string", "maxLength": -1}), place.to_owned()),
        (json!({"type": "string", "format": "email"}), place.to_owned()),
        (json!({"type": "array", "items": {"type": "null"}}), place.to_owned()),
        (json!({"type": "array", "maxItems": 2}), place.to_owned()),
        (json!({"type": "array", "maxItems": 2, "items": {"type": "string"}}), format!("{place}/items")),
        (json!({"type": "integer", "minimum": 0}), place.to_owned()),
        (json!({"type": "number", "minimum": 0, "maximum": 1}), place.to_owned()),
        (json!({"type": "object"}), place.to_owned()),
        (json!({"anyOf": [{"type": "null"}, {"type": "string"}]}), format!("{place}/anyOf/1")),
        (json!({"allOf": [{"type": "string"}]}), format!("{place}/allOf/0")),
        (json!({"type": ["null", "string"]}), place.to_owned()),
        (json!({}), place.to_owned()),
        (json!(true), place.to_owned()),
    ] {
        match schema_error(object(property.clone())) {
            DecodeError::UnboundedSchema { path: found, .. } => {
                assert_eq!(found, path, "{property}")
            }
            other => panic!("{property}: {other}"),
        }
    }
}

#[test]
fn references_are_followed_inside_the_schema_alone() {
    let with = |reference: &str, definition: serde_json::Value| json!({"type": "object", "properties": {"x": {"$ref": reference}}, "additionalProperties": false, "$defs": {"d": definition}});
    let bounded = Grammar::JsonSchema(with("#/$defs/d", json!({"type": "string", "maxLength": 3})));
    assert!(takes(&bounded, r#"{"x":"abc"}"#) && !takes(&bounded, r#"{"x":"abcd"}"#));
    let error = schema_error(with("#/$defs/d", json!({"type": "string"})));
    assert!(matches!(error, DecodeError::UnboundedSchema { path, .. } if path == "#/$defs/d"));
    let loops = json!({"type": "array", "maxItems": 1, "items": {"$ref": "#/$defs/d"}});
    for (reference, definition) in
        [("#/$defs/d", loops), ("#/$defs/none", json!({})), ("http://127.0.0.1/x", json!({}))]
    {
        let error = schema_error(with(reference, definition));
        assert!(matches!(error, DecodeError::SchemaReference { .. }), "{error}");
    }
}

#[test]
fn deep_schemas_are_refused() {
    let mut schema = json!({"type": "null"});
    for _ in 0..200 {
        schema = json!({"type": "array", "maxItems": 1, "items": schema});
    }
    assert!(matches!(schema_error(schema), DecodeError::UnboundedSchema { .. }));
}

#[test]
fn bounded_kinds_compile() {
    for (schema, text) in [
        (json!({"type": "integer", "minimum": 0, "maximum": 12}), "12"),
        (json!({"enum": ["a", 1.5, null]}), "1.5"),
        (json!({"const": {"a": 1}}), "{\"a\":1}"),
        (json!({"type": ["boolean", "null"]}), "true"),
        (json!({"type": "string", "format": "date"}), "\"2026-01-02\""),
        (json!({"type": "string", "pattern": "^a+$", "maxLength": 3}), "\"aaa\""),
        (json!({"type": "array", "prefixItems": [{"type": "null"}], "items": false}), "[null]"),
        (json!({"type": "string", "maxLength": 2_000}), "\"x\""),
    ] {
        assert!(takes(&Grammar::JsonSchema(schema.clone()), text), "{schema}");
    }
}

#[test]
fn impossible_vocabularies_are_refused() {
    let refused = |change: &dyn Fn(&mut Vocabulary)| {
        let mut vocabulary = vocabulary();
        change(&mut vocabulary);
        assert!(matches!(GrammarFactory::from_vocabulary(&vocabulary), Err(DecodeError::Vocabulary { .. })));
    };
    refused(&|vocabulary| *vocabulary = Vocabulary::default());
    refused(&|vocabulary| vocabulary.token_bytes[3] = vec![b'a'; 2_000]);
    refused(&|vocabulary| vocabulary.stop_ids.push(9_999));
    refused(&|vocabulary| vocabulary.is_special.truncate(5));
}

#[test]
fn a_vocabulary_without_stop_ids_still_ends_by_the_grammar() {
    let vocabulary = Vocabulary { stop_ids: vec![], ..vocabulary() };
    let factory = GrammarFactory::from_vocabulary(&vocabulary).unwrap();
    let mut state = factory.start(&Grammar::Choice(vec!["NO".into()])).unwrap();
    state.accept(257).unwrap();
    assert!(state.is_finished());
    assert!(state.allowed().unwrap().is_zero());
}
