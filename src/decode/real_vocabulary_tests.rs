//! Grammars over the vocabularies of real models, drawn from at random: whatever a model says, the output is whole.

use super::{Grammar, GrammarFactory, SamplingParams, StopChecker, Vocabulary, sample};
use crate::tokenizer::{SpecialTokens, Tokenizer};
use crate::weights::Weights;
use serde_json::{Value, json};

/// The tokenizer of a model among the test assets; `None`, with the reason printed, where it is absent.
fn tokenizer(name: &str) -> Option<Tokenizer> {
    let variable = |name: &str| std::env::var_os(name).map(std::path::PathBuf::from);
    let cache = variable("LONGWICK_CACHE").or_else(|| Some(variable("HOME")?.join(".cache/longwick")));
    let assets = variable("LONGWICK_TEST_ASSETS").or_else(|| Some(cache?.join("assets")))?;
    let path = assets.join(name);
    if !path.exists() {
        eprintln!("skipped: {} is absent", path.display());
        return None;
    }
    let weights = Weights::open(&path).unwrap();
    Some(Tokenizer::from_weights(&weights).unwrap())
}

struct Model {
    name: &'static str,
    tokenizer: Tokenizer,
    factory: GrammarFactory,
}

/// The models that are there; read once, as a vocabulary of 262,144 tokens takes a second.
fn models() -> &'static [Model] {
    static MODELS: std::sync::OnceLock<Vec<Model>> = std::sync::OnceLock::new();
    MODELS.get_or_init(|| {
        ["SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"]
            .into_iter()
            .filter_map(|name| {
                let tokenizer = tokenizer(name)?;
                let factory = GrammarFactory::new(&tokenizer).unwrap();
                Some(Model { name, tokenizer, factory })
            })
            .collect()
    })
}

/// A row of logits that is different at each position and prefers nothing.
fn logits(vocabulary: usize, position: u64) -> Vec<f32> {
    (0..vocabulary as u64)
        .map(|token| {
            let mixed =
                (token + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(position as u32 % 64) ^ position;
            (mixed.wrapping_mul(0xd134_2543_de82_ef95) >> 40) as f32 / 4_000_000.0
        })
        .collect()
}

/// Generates under a grammar from random logits until it is finished; the text.
fn generate(tokenizer: &Tokenizer, factory: &GrammarFactory, grammar: &Grammar, seed: u64) -> String {
    let params = SamplingParams { temperature: 1.0, seed, ..SamplingParams::default() };
    let mut state = factory.start(grammar).unwrap();
    let mut text = StopChecker::new(tokenizer.clone(), vec![]);
    // Models' rows are often longer than their vocabulary.
    let rows = tokenizer.vocab_size() + 64;
    for position in 0..2_000 {
        let allowed = state.allowed().unwrap();
        let token = sample(&logits(rows, position ^ seed), &params, 1, position, Some(&allowed)).unwrap();
        state.accept(token).unwrap();
        if tokenizer.stop_ids().contains(&token) {
            assert!(state.is_finished());
            return text.text();
        }
        assert!(!text.push(token));
        if state.is_finished() {
            return text.text();
        }
    }
    panic!("a bounded grammar did not end: {}", text.text());
}

#[test]
fn random_tokens_under_a_schema_are_always_a_whole_bounded_answer() {
    let schema = json!({
        "type": "object",
        "properties": {"scs": {"type": "array", "maxItems": 3, "items": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 12}, "evidence": {"type": "string", "maxLength": 9}},
            "required": ["text", "evidence"],
            "additionalProperties": false,
        }}},
        "required": ["scs"],
        "additionalProperties": false,
    });
    for Model { name: model, tokenizer, factory } in models() {
        for seed in 0..8 {
            let text = generate(tokenizer, factory, &Grammar::JsonSchema(schema.clone()), seed);
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("{model}: {error}: {text}"));
            assert!(!text.ends_with(char::is_whitespace), "{text}");
            let items = value["scs"].as_array().unwrap();
            assert!(items.len() <= 3, "{text}");
            for item in items {
                let length = |field: &str| item[field].as_str().unwrap().chars().count();
                assert!((1..=12).contains(&length("text")) && length("evidence") <= 9, "{text}");
            }
        }
    }
}

#[test]
fn random_tokens_under_a_choice_are_a_choice() {
    for Model { name: model, tokenizer, factory } in models() {
        let options = ["YES", "NO", "naïve 🦀"].map(str::to_owned).to_vec();
        let grammar = Grammar::Choice(options.clone());
        let texts: Vec<String> = (0..12).map(|seed| generate(tokenizer, factory, &grammar, seed)).collect();
        assert!(texts.iter().all(|text| options.contains(text)), "{model}: {texts:?}");
        assert!(options[..2].iter().all(|option| texts.contains(option)), "{model}: {texts:?}");
    }
}

#[test]
fn the_vocabulary_spells_text_and_marks_specials() {
    for Model { name: model, tokenizer, factory } in models() {
        let vocabulary = Vocabulary::from_tokenizer(tokenizer);
        assert_eq!(vocabulary.token_bytes.len(), tokenizer.vocab_size());
        assert!(!vocabulary.stop_ids.is_empty(), "{model}");
        for &stop in &vocabulary.stop_ids {
            assert!(vocabulary.is_special[stop as usize], "{model}: stop id {stop}");
        }
        // Every text can be spelt: a grammar that allows a string allows its own tokenisation.
        let text = "Don't mail — naïve 🦀\tA1";
        let mut state = factory.start(&Grammar::Choice(vec![text.to_owned()])).unwrap();
        for token in tokenizer.encode(text, SpecialTokens::AsText).unwrap() {
            assert!(state.allowed().unwrap().is_allowed(token), "{model}: token {token}");
            state.accept(token).unwrap();
        }
        assert!(state.is_finished());
    }
}
