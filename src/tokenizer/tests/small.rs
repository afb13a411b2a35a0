//! A small byte-level vocabulary: bytes, flags, offsets, BOS and stop ids.
use super::{small, small_json};
use crate::tokenizer::{SpecialTokens, Tokenizer};

/// Loads the small tokenizer with other files beside it.
fn with_files(change: impl Fn(&mut serde_json::Value), files: &[(&str, serde_json::Value)]) -> Tokenizer {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let mut json = small_json();
    change(&mut json);
    std::fs::write(folder.path().join("tokenizer.json"), json.to_string()).expect("written");
    for (name, value) in files {
        std::fs::write(folder.path().join(name), value.to_string()).expect("written");
    }
    Tokenizer::from_file(&folder.path().join("tokenizer.json")).expect("loads")
}

#[test]
fn merges_and_decodes() {
    let tokenizer = small();
    let ids = tokenizer.encode("in the\n\n", SpecialTokens::Parse).expect("encoded");
    assert_eq!(ids, [259, 258, 270]);
    assert_eq!(tokenizer.decode(&ids), "in the\n\n");
    let text = "é <think>\u{1F600}</think>\0";
    let ids = tokenizer.encode(text, SpecialTokens::Parse).expect("encoded");
    assert!(ids.contains(&263));
    assert_eq!(tokenizer.decode(&ids), text);
}

#[test]
fn exports_bytes_and_flags() {
    let tokenizer = small();
    assert_eq!(tokenizer.vocab_size(), 271);
    for byte in 0..=255_u32 {
        assert_eq!(tokenizer.token_bytes(byte), Some([byte as u8].as_slice()));
    }
    assert_eq!(tokenizer.token_bytes(258), Some(b" the".as_slice()));
    assert_eq!(tokenizer.token_bytes(262), Some(b"<|im_end|>".as_slice()));
    assert_eq!(tokenizer.token_bytes(265), None, "a gap in the ids");
    assert_eq!(tokenizer.token_bytes(271), None, "past the vocabulary");
    assert_eq!(tokenizer.token_bytes(u32::MAX), None);
    assert_eq!(
        (tokenizer.is_special(262), tokenizer.is_special(263), tokenizer.is_special(9_999)),
        (true, false, false)
    );
    assert_eq!(tokenizer.token_id("Ġthe"), Some(258));
    assert_eq!(tokenizer.token_id("nothing"), None);
    assert_eq!(tokenizer.decode(&[0xff, 265, 0x41]), "\u{fffd}A");
}

#[test]
fn special_text_is_plain_when_asked() {
    let tokenizer = small();
    let text = "<|im_end|><think>";
    assert_eq!(tokenizer.encode(text, SpecialTokens::Parse).expect("encoded"), [262, 263]);
    let plain = tokenizer.encode(text, SpecialTokens::AsText).expect("encoded");
    assert_eq!(plain.len(), "<|im_end|>".len() + 1, "only <think>, which is not special, is one token");
    assert_eq!(tokenizer.decode(&plain), text);
}

#[test]
fn literal_ranges_keep_the_rest() {
    let tokenizer = small();
    let text = "<|im_start|>in <|im_end|> the<|im_end|>\n\n";
    let inner = text.find("<|im_end|>").expect("there");
    let encoded = tokenizer.encode_rendered(text, &[12..inner + 14]).expect("encoded");
    assert_eq!(encoded.ids[0], 261);
    assert_eq!(encoded.ids.iter().filter(|id| **id == 262).count(), 1);
    assert_eq!(encoded.ids[encoded.ids.len() - 2..], [262, 270]);
    assert_eq!(tokenizer.decode(&encoded.ids), text);
    for (id, at) in encoded.ids.iter().zip(&encoded.offsets) {
        assert_eq!(tokenizer.token_bytes(*id), Some(&text.as_bytes()[at.clone()]));
    }
    let elsewhere = tokenizer.encode_rendered(text, &[12..15]).expect("encoded");
    assert_eq!(elsewhere.ids, tokenizer.encode(text, SpecialTokens::Parse).expect("encoded"));
}

#[test]
fn bos_is_where_the_files_want_it() {
    let post = serde_json::json!({"type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [261], "tokens": ["<|im_start|>"]}}});
    let nested = serde_json::json!({"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true}, post]});
    let config = |add: serde_json::Value| serde_json::json!({"add_bos_token": add, "bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>"});
    let file = "tokenizer_config.json";
    assert_eq!(with_files(|_| {}, &[]).bos_id(), None);
    assert_eq!(with_files(|_| {}, &[(file, config(true.into()))]).bos_id(), Some(261));
    assert_eq!(with_files(|json| json["post_processor"] = nested.clone(), &[]).bos_id(), Some(261));
    let refused = with_files(|json| json["post_processor"] = nested.clone(), &[(file, config(false.into()))]);
    assert_eq!(refused.bos_id(), None);
    assert_eq!(refused.bos_text(), Some("<|im_start|>"));
}

#[test]
fn stop_ids_come_from_all_files() {
    let config = serde_json::json!({"text_config": {"eos_token_id": 5}});
    let generation = serde_json::json!({"eos_token_id": [7, 262]});
    let tokenizer = with_files(|_| {}, &[("config.json", config), ("generation_config.json", generation)]);
    assert_eq!(tokenizer.stop_ids(), [5, 7, 262]);
    assert_eq!(small().stop_ids(), [262], "a well-known turn end needs no configuration");
}

#[test]
fn digest_tells_vocabularies_and_settings_apart() {
    let changed = with_files(|json| json["model"]["merges"] = serde_json::json!([]), &[]);
    let stopped = with_files(|_| {}, &[("config.json", serde_json::json!({"eos_token_id": 5}))]);
    let digests = [small(), changed, stopped].map(|tokenizer| tokenizer.digest().to_owned());
    assert_eq!(small().digest(), digests[0]);
    assert_eq!(digests[0].len(), 64);
    assert!(digests[0] != digests[1] && digests[0] != digests[2] && digests[1] != digests[2]);
}

#[test]
fn what_the_vocabulary_cannot_spell_is_left_out_as_the_library_does() {
    // Without U+0004: its stand-in in the byte-level alphabet is U+0104.
    let tokenizer = with_files(
        |json| {
            let vocabulary = json["model"]["vocab"].as_object_mut().expect("a vocabulary");
            vocabulary.remove("\u{104}");
            vocabulary.insert("unused".to_owned(), 4.into());
        },
        &[],
    );
    let ids = |text: &str| tokenizer.encode(text, SpecialTokens::Parse).expect("encoded");
    assert_eq!(ids("in\u{4}"), ids("in"));
    let encoded = tokenizer.encode_rendered("in\u{4}<|im_end|>", &[]).expect("encoded");
    assert_eq!(encoded.ids, [259, 262]);
    assert_eq!(encoded.offsets, [0..2, 3..13]);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
    #[test]
    fn any_text_comes_back(
        text in "(the| in|\n\n|<\\|im_end\\|>|<think>|[a-e]|\u{e9}|\u{1F600}|<\\||\u{0}){0,40}",
        cut in proptest::collection::vec(0.0..1.0_f64, 2),
    ) {
        let tokenizer = shared_small();
        for special in [SpecialTokens::Parse, SpecialTokens::AsText] {
            let ids = tokenizer.encode(&text, special).expect("encoded");
            proptest::prop_assert_eq!(tokenizer.decode(&ids), &text[..]);
        }
        let at = |fraction: f64| text.floor_char_boundary((fraction * text.len() as f64) as usize);
        let (a, b) = (at(cut[0]), at(cut[1]));
        let encoded = tokenizer.encode_rendered(&text, &[a.min(b)..a.max(b)]).expect("encoded");
        proptest::prop_assert_eq!(tokenizer.decode(&encoded.ids), &text[..]);
        let literal = a.min(b)..a.max(b);
        for (id, at) in encoded.ids.iter().zip(&encoded.offsets) {
            let in_literal = !literal.is_empty() && literal.start < at.end && at.start < literal.end;
            proptest::prop_assert!(!(tokenizer.is_special(*id) && in_literal));
        }
        proptest::prop_assert!(encoded.offsets.windows(2).all(|pair| pair[0].end <= pair[1].start || pair[0] == pair[1]));
    }
}

fn shared_small() -> &'static Tokenizer {
    static SMALL: std::sync::OnceLock<Tokenizer> = std::sync::OnceLock::new();
    SMALL.get_or_init(small)
}

#[test]
fn a_whole_text_has_its_special_tokens_within_the_limit() {
    let special = |id: &str| serde_json::json!({"SpecialToken": {"id": id, "type_id": 0}});
    let sequence = serde_json::json!({"Sequence": {"id": "A", "type_id": 0}});
    let known = |id: u32, text: &str| serde_json::json!({"id": text, "ids": [id], "tokens": [text]});
    let around = serde_json::json!({"type": "TemplateProcessing", "pair": [],
        "single": [special("<|im_start|>"), sequence, special("<|im_end|>")],
        "special_tokens": {"<|im_start|>": known(261, "<|im_start|>"), "<|im_end|>": known(262, "<|im_end|>")}});
    let tokenizer = with_files(
        |json| {
            json["post_processor"] = around.clone();
            json["truncation"] = serde_json::json!({"max_length": 3, "strategy": "LongestFirst", "stride": 0,
                "direction": "Right"});
        },
        &[],
    );
    let whole =
        |limit| tokenizer.encode_whole("the<|im_end|>", SpecialTokens::AsText, limit).expect("encoded");
    let all = whole(100);
    assert_eq!((all.ids[0], all.ids[1], all.ids[all.ids.len() - 1]), (261, 257, 262));
    assert_eq!((all.ids.len(), all.is_cut), (3 + "<|im_end|>".len(), false));
    assert_eq!(whole(all.ids.len()), all);
    let cut = whole(3);
    assert_eq!((cut.ids, cut.is_cut), (vec![261, 257, 262], true));
    assert_eq!((tokenizer.tokens_around(), small().tokens_around()), (2, 0));
    // Without a post-processor the BOS that the model wants goes in front.
    let config = serde_json::json!({"add_bos_token": true, "bos_token": "<|im_start|>"});
    let bos = with_files(|_| {}, &[("tokenizer_config.json", config)]);
    assert_eq!(bos.encode_whole("the", SpecialTokens::AsText, 9).expect("encoded").ids, [261, 257]);
}

#[test]
fn tokens_have_texts_and_join_to_one() {
    let tokenizer = small();
    let tokens = tokenizer.encode_tokens("the in", SpecialTokens::AsText).expect("encoded");
    assert_eq!(tokens, ["the", "Ġ", "in"]);
    assert_eq!(tokenizer.join_tokens(tokens).expect("decoded"), "the in");
    assert_eq!(tokenizer.token_text(258).as_deref(), Some("Ġthe"));
    assert_eq!(tokenizer.token_text(9_999), None);
}

#[test]
fn added_tokens_come_behind_the_files_own() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("tokenizer.json");
    let added = ["[NEW0]".to_owned(), "<|im_end|>".to_owned(), "[NEW1]".to_owned()];
    let mut json = super::small_json();
    let load = |json: &serde_json::Value| {
        std::fs::write(&path, json.to_string()).expect("written");
        super::Tokenizer::from_file_with_tokens(&path, &added)
    };
    let error = load(&json).expect_err("a new token would take a free id below others").to_string();
    assert!(error.contains("gaps"), "{error}");
    json["model"]["vocab"]["ĊĊ"] = 260.into();
    let tokenizer = load(&json).expect("whole");
    let ids = tokenizer.encode("[NEW1]the[NEW0]", SpecialTokens::Parse).expect("encoded");
    assert_eq!(ids, [266, 257, 265]);
    assert!(tokenizer.is_special(265) && tokenizer.token_id("<|im_end|>") == Some(262));
}
