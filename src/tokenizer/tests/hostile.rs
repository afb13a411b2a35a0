//! Damaged files: a typed error each, no panic, no runaway memory.
use super::small_json;
use crate::tokenizer::{Tokenizer, TokenizerError};

fn load(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, bytes).expect("written");
    Tokenizer::from_file(&path)
}

#[test]
fn truncated_and_flipped_files_are_refused_or_read() {
    let whole = small_json().to_string().into_bytes();
    for length in (0..whole.len()).step_by(97) {
        assert!(matches!(load(&whole[..length]), Err(TokenizerError::Damaged { .. })), "cut at {length}");
    }
    for at in (0..whole.len()).step_by(61) {
        for bit in [0, 4, 6] {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << bit;
            // A flipped bit may leave a different but whole vocabulary; what it must not do is panic.
            if let Err(error) = load(&flipped) {
                assert!(
                    error.to_string().contains("tokenizer.json") || error.to_string().contains("vocabulary")
                );
            }
        }
    }
}

#[test]
fn a_huge_id_does_not_size_a_table() {
    let mut json = small_json();
    json["model"]["vocab"]["ĊĊ"] = 4_294_967_295_u32.into();
    let error = load(json.to_string().as_bytes()).expect_err("refused");
    assert!(matches!(error, TokenizerError::IdOutOfRange { id: 4_294_967_295, .. }), "{error}");
}

#[test]
fn merges_of_unknown_tokens_are_refused() {
    let mut json = small_json();
    json["model"]["merges"] = serde_json::json!([["q", "zz"]]);
    assert!(matches!(load(json.to_string().as_bytes()), Err(TokenizerError::Damaged { .. })));
}

#[test]
fn missing_files_and_bad_configs_are_named() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("tokenizer.json");
    let error = Tokenizer::from_file(&path).expect_err("absent");
    assert!(matches!(error, TokenizerError::Read { .. }) && error.to_string().contains("tokenizer.json"));
    std::fs::write(&path, small_json().to_string()).expect("written");
    for (eos, named) in [("\"x\"", "eos_token_id"), ("-1", "-1"), ("[1, 99999999999]", "99999999999")] {
        std::fs::write(folder.path().join("config.json"), format!("{{\"eos_token_id\": {eos}}}"))
            .expect("written");
        let error = Tokenizer::from_file(&path).expect_err("refused").to_string();
        assert!(error.contains("config.json") && error.contains(named), "{error}");
    }
}

#[test]
fn an_added_token_that_would_get_another_id_is_refused() {
    let mut json = small_json();
    json["added_tokens"][3]["id"] = 300.into();
    let error = load(json.to_string().as_bytes()).expect_err("refused").to_string();
    assert!(error.contains("</think>") && error.contains("300") && error.contains("264"), "{error}");
}
