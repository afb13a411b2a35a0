//! Vocabularies as GGUF files describe them.
use super::{asset, real, shared, small};
use crate::tokenizer::{GgufTokenType, GgufVocabulary, SpecialTokens, Tokenizer, TokenizerError};

/// The vocabulary of a byte-level tokenizer.json as a GGUF file would list it.
fn from_json(json: &serde_json::Value, pre: &str) -> GgufVocabulary {
    let mut tokens: Vec<(u64, String, GgufTokenType)> = Vec::new();
    for (text, id) in json["model"]["vocab"].as_object().expect("a vocabulary") {
        tokens.push((id.as_u64().expect("an id"), text.clone(), GgufTokenType::Normal));
    }
    for token in json["added_tokens"].as_array().expect("a list") {
        let kind = if token["special"] == true { GgufTokenType::Control } else { GgufTokenType::UserDefined };
        let text = token["content"].as_str().expect("text");
        tokens.push((token["id"].as_u64().expect("an id"), text.to_owned(), kind));
    }
    let size = tokens.iter().map(|token| token.0).max().expect("tokens") as usize + 1;
    let mut vocabulary =
        GgufVocabulary { model: "gpt2".to_owned(), pre: Some(pre.to_owned()), ..Default::default() };
    vocabulary.tokens = (0..size).map(|id| format!("[PAD{id}]")).collect();
    vocabulary.token_types = vec![GgufTokenType::Unused; size];
    for (id, text, kind) in tokens {
        vocabulary.tokens[id as usize] = text;
        vocabulary.token_types[id as usize] = kind;
    }
    let merges = json["model"]["merges"].as_array().expect("merges").iter();
    let half = |merge: &serde_json::Value, index: usize| merge[index].as_str().expect("text").to_owned();
    vocabulary.merges = merges.map(|merge| format!("{} {}", half(merge, 0), half(merge, 1))).collect();
    vocabulary
}

/// SentencePiece pieces with scores: higher is better.
fn pieces(list: &[(&str, GgufTokenType, f32)]) -> GgufVocabulary {
    GgufVocabulary {
        model: "llama".to_owned(),
        tokens: list.iter().map(|(text, ..)| (*text).to_owned()).collect(),
        token_types: list.iter().map(|(_, kind, _)| *kind).collect(),
        scores: list.iter().map(|(.., score)| *score).collect(),
        add_space_prefix: Some(false),
        ..Default::default()
    }
}

fn sentencepiece() -> GgufVocabulary {
    use GgufTokenType::{Byte, Control, Normal, Unknown, UserDefined};
    pieces(&[
        ("<unk>", Unknown, 0.0),
        ("<bos>", Control, 0.0),
        ("<end_of_turn>", Control, 0.0),
        ("  ", UserDefined, -1000.0),
        ("   ", UserDefined, -1000.0),
        ("\n\n", UserDefined, -1000.0),
        ("<0x0A>", Byte, 0.0),
        ("<0xC3>", Byte, 0.0),
        ("<0xA9>", Byte, 0.0),
        ("ab", Normal, -1.0),
        ("bc", Normal, -0.5),
        ("▁a", Normal, -2.0),
        ("aa", Normal, -3.0),
        ("▁", Normal, -10.0),
        ("a", Normal, -11.0),
        ("b", Normal, -12.0),
        ("c", Normal, -13.0),
    ])
}

#[test]
fn byte_level_equals_the_json_it_came_from() {
    let from_gguf = Tokenizer::from_gguf_vocabulary(from_json(&super::small_json(), "gpt-2")).expect("loads");
    let text = "in the\n\nthin <|im_end|><think>\u{e9}";
    assert_eq!(
        from_gguf.encode(text, SpecialTokens::Parse).expect("encoded"),
        small().encode(text, SpecialTokens::Parse).expect("encoded"),
    );
    assert_eq!(from_gguf.stop_ids(), [262]);
    assert_eq!(from_gguf.token_bytes(258), Some(b" the".as_slice()));
}

#[test]
fn real_vocabularies_listed_as_gguf_give_the_true_ids() {
    for (family, pre) in [("qwen3", "qwen2"), ("gptoss", "gpt-4o")] {
        let Some(path) = asset(&format!("tokenizers/{family}/tokenizer.json")) else {
            continue;
        };
        let json = serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
        let tokenizer = Tokenizer::from_gguf_vocabulary(from_json(&json, pre)).expect("loads");
        real::check_vectors(&tokenizer, family);
    }
}

#[test]
fn digits_stand_alone_where_the_pre_tokeniser_says_so() {
    let mut vocabulary = from_json(&super::small_json(), "smollm");
    vocabulary.merges.push("1 2".to_owned());
    vocabulary.tokens[265] = "12".to_owned();
    vocabulary.token_types[265] = GgufTokenType::Normal;
    let mut whole = vocabulary.clone();
    whole.pre = Some("llama-bpe".to_owned());
    let encode = |vocabulary| {
        let tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary).expect("loads");
        tokenizer.encode("12", SpecialTokens::Parse).expect("encoded")
    };
    assert_eq!(encode(vocabulary), [u32::from(b'1'), u32::from(b'2')]);
    assert_eq!(encode(whole), [265]);
}

#[test]
fn better_scores_merge_first_and_ties_go_left() {
    let tokenizer = Tokenizer::from_gguf_vocabulary(sentencepiece()).expect("loads");
    let ids = |text: &str| tokenizer.encode(text, SpecialTokens::Parse).expect("encoded");
    assert_eq!(ids("abc"), [14, 10], "bc scores higher than ab");
    assert_eq!(ids("ab"), [9]);
    assert_eq!(ids("aaa"), [12, 14], "of two equal merges the leftmost");
    assert_eq!(ids(" a"), [11]);
    assert_eq!(ids("    a"), [4, 11], "three spaces are user-defined, the fourth is free for a word");
    assert_eq!(ids("\n\n\n"), [5, 6], "two are user-defined, the third falls back to its byte");
    assert_eq!(ids("é<end_of_turn>"), [7, 8, 2]);
    assert_eq!(tokenizer.decode(&ids(" a\n\né   <bos>")), " a\n\né   <bos>");
    assert_eq!(tokenizer.stop_ids(), [2]);
}

#[test]
fn a_space_goes_in_front_where_the_file_says_so() {
    let mut vocabulary = sentencepiece();
    vocabulary.add_space_prefix = None;
    vocabulary.bos = Some(1);
    let tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary).expect("loads");
    assert_eq!(tokenizer.encode("a", SpecialTokens::Parse).expect("encoded"), [11]);
    assert_eq!(tokenizer.bos_id(), Some(1), "SentencePiece models want a BOS unless they say otherwise");
}

#[test]
fn a_long_text_is_not_quadratic() {
    let tokenizer = Tokenizer::from_gguf_vocabulary(sentencepiece()).expect("loads");
    let started = std::time::Instant::now();
    let text = "abcaab".repeat(50_000);
    let ids = tokenizer.encode(&text, SpecialTokens::Parse).expect("encoded");
    assert_eq!(tokenizer.decode(&ids), text);
    // One unbroken word of 300,000 characters: a merge loop that looks at all pairs each time would take hours.
    assert!(started.elapsed().as_secs() < 30, "{:?}", started.elapsed());
}

#[test]
fn what_cannot_be_read_is_named() {
    let refused =
        |vocabulary: GgufVocabulary| Tokenizer::from_gguf_vocabulary(vocabulary).expect_err("refused");
    let base = || from_json(&super::small_json(), "gpt-2");
    let error = refused(GgufVocabulary { pre: Some("martian".to_owned()), ..base() });
    assert!(matches!(&error, TokenizerError::UnknownPreTokenizer { pre, .. } if pre == "martian"));
    assert!(error.to_string().contains("martian") && error.to_string().contains("qwen2"));
    let error = refused(GgufVocabulary { model: "t5".to_owned(), ..base() });
    assert!(matches!(error, TokenizerError::UnknownModel { model } if model == "t5"));
    let error = refused(GgufVocabulary { merges: vec!["t h".to_owned(), "nospace".to_owned()], ..base() });
    assert!(matches!(error, TokenizerError::DamagedMerge { index: 1, .. }));
    let error = refused(GgufVocabulary { merges: vec!["q zz".to_owned()], ..base() });
    assert!(matches!(error, TokenizerError::Build { .. }));
    let error = refused(GgufVocabulary { eos: Some(400), ..base() });
    assert!(
        matches!(&error, TokenizerError::IdOutOfRange { field, id: 400, vocab_size: 271 } if field.contains("eos"))
    );
    let error = refused(GgufVocabulary { token_types: vec![GgufTokenType::Normal; 3], ..base() });
    assert!(matches!(error, TokenizerError::LengthMismatch { expected: 271, found: 3, .. }));
    let error = refused(GgufVocabulary { scores: vec![], ..sentencepiece() });
    assert!(matches!(error, TokenizerError::MissingField { field: "tokenizer.ggml.scores" }));
    assert!(GgufVocabulary::token_types(&[1, 9]).expect_err("refused").to_string().contains("token 1 is 9"));
}

#[test]
fn a_hostile_vocabulary_cannot_ask_for_quadratic_memory() {
    let all: Vec<String> = (1..9_000).map(|length| "a".repeat(length)).collect();
    let list: Vec<(&str, GgufTokenType, f32)> =
        all.iter().map(|text| (text.as_str(), GgufTokenType::Normal, 0.0)).collect();
    let error = Tokenizer::from_gguf_vocabulary(pieces(&list)).expect_err("refused");
    assert!(matches!(error, TokenizerError::TooManyMerges { .. }), "{error}");
}

#[test]
fn real_gguf_files_give_the_true_ids() {
    let load = |file: &str| {
        let weights = crate::weights::Weights::open(&asset(file)?).expect("a published GGUF file opens");
        Some(Tokenizer::from_weights(&weights).expect("its vocabulary is read"))
    };
    if let Some(gemma) = load("gemma-3-270m-q4_k_m.gguf") {
        real::check_vectors(&gemma, "gemma3");
        assert_eq!((gemma.bos_id(), gemma.stop_ids()), (Some(2), [1, 106].as_slice()));
        assert_eq!(gemma.token_bytes(167), Some(" ".repeat(31).as_bytes()));
        assert!(gemma.is_special(105) && !gemma.is_special(107));
    }
    let Some(smollm) = load("SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    assert_eq!((smollm.bos_id(), smollm.stop_ids()), (None, [0, 2].as_slice()));
    let (Some(text), Some(logits)) = (shared("logits/text.txt"), shared("logits/smollm2-135m-q4_1.json"))
    else {
        return;
    };
    let text = std::fs::read_to_string(text).expect("UTF-8");
    let ids = smollm.encode(&text, SpecialTokens::Parse).expect("encoded");
    let logits: serde_json::Value =
        serde_json::from_slice(&std::fs::read(logits).expect("readable")).expect("JSON");
    for case in logits["cases"].as_array().expect("cases") {
        let expected: Vec<u32> = serde_json::from_value(case["token_ids"].clone()).expect("ids");
        assert_eq!(ids[..expected.len()], expected);
    }
}

/// Gemma 4's files list merges, and no scores that mean anything: the list decides which halves join first.
#[test]
fn listed_merges_decide_over_pieces_spelled_as_sentencepiece_does() {
    use GgufTokenType::{Byte, Control, Normal, UserDefined};
    let mut vocabulary = pieces(&[
        ("<unk>", Control, -1000.0),
        ("<bos>", Control, -1000.0),
        ("<turn|>", Control, -1000.0),
        ("<|channel>", UserDefined, -1000.0),
        ("<0xC3>", Byte, -1000.0),
        ("<0xA9>", Byte, -1000.0),
        ("▁", Normal, -1000.0),
        ("a", Normal, -1000.0),
        ("b", Normal, -1000.0),
        ("c", Normal, -1000.0),
        ("bc", Normal, -1000.0),
        ("ab", Normal, -1000.0),
        ("▁a", Normal, -1000.0),
        ("\n", Normal, -1000.0),
        ("\n\n", Normal, -1000.0),
    ]);
    vocabulary.model = "gemma4".to_owned();
    let missing = Tokenizer::from_gguf_vocabulary(vocabulary.clone()).expect_err("no merges");
    assert!(matches!(missing, TokenizerError::MissingField { field: "tokenizer.ggml.merges" }), "{missing}");
    vocabulary.merges = ["b c", "▁ a", "a b", "\n \n"].map(str::to_owned).to_vec();
    let tokenizer = Tokenizer::from_gguf_vocabulary(vocabulary.clone()).expect("loads");
    let encode = |text: &str| tokenizer.encode(text, SpecialTokens::Parse).expect("encoded");
    assert_eq!(encode("abc ab"), [7, 10, 12, 8]);
    assert_eq!(encode("\n\n\u{e9}<|channel>ab<turn|>"), [14, 4, 5, 3, 11, 2]);
    assert_eq!(tokenizer.decode(&[12, 8, 4, 5]), " ab\u{e9}");
    assert_eq!(tokenizer.stop_ids(), [2]);
    vocabulary.merges.push("a b c".to_owned());
    let damaged = Tokenizer::from_gguf_vocabulary(vocabulary).expect_err("three parts");
    assert!(matches!(damaged, TokenizerError::DamagedMerge { index: 4, .. }), "{damaged}");
}
