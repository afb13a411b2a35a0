//! Tests of the tokenizers: small vocabularies of our own, and the real ones where they were fetched.
#![allow(clippy::single_range_in_vec_init, reason = "lists of one range are what is meant")]
mod gguf;
mod hostile;
mod real;
mod small;

use std::path::PathBuf;

use super::Tokenizer;

/// A byte-level tokenizer.json of our own: the 256 bytes, a few merges, two control tokens and a plain added one.
pub(crate) fn small_json() -> serde_json::Value {
    let mut alphabet: Vec<(char, u8)> = super::table::byte_level_alphabet().into_iter().collect();
    alphabet.sort_by_key(|(_, byte)| *byte);
    let mut vocab = serde_json::Map::new();
    for (character, byte) in alphabet {
        vocab.insert(character.to_string(), byte.into());
    }
    // The last one leaves a gap in the ids.
    for (text, id) in [("th", 256), ("the", 257), ("Ġthe", 258), ("in", 259), ("ĊĊ", 270)] {
        vocab.insert(text.to_owned(), id.into());
    }
    let added = |id: u32, content: &str, special: bool| {
        serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": special})
    };
    serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [added(261, "<|im_start|>", true), added(262, "<|im_end|>", true), added(263, "<think>", false),
            added(264, "</think>", false)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab,
            "merges": [["t", "h"], ["th", "e"], ["Ġ", "the"], ["i", "n"], ["Ċ", "Ċ"]]},
    })
}

/// The tokenizer of [`small_json`].
pub(crate) fn small() -> Tokenizer {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, small_json().to_string()).expect("the file is written");
    Tokenizer::from_file(&path).expect("the fixture is whole")
}

/// A file among the test assets, or `None` with the reason printed.
pub(crate) fn asset(name: &str) -> Option<PathBuf> {
    let from_env = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = from_env("LONGWICK_CACHE").or_else(|| Some(from_env("HOME")?.join(".cache/longwick")));
    let root = from_env("LONGWICK_TEST_ASSETS").or_else(|| Some(cache?.join("assets")))?;
    present(root.join(name), "fetch the test assets with scripts/fetch_test_tokenizers.sh")
}

/// A file of the shared test data, or `None` with the reason printed.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let root = std::env::var_os("LONGWICK_SHARED_DATA").map_or_else(beside, PathBuf::from);
    present(root.join(name), "set LONGWICK_SHARED_DATA")
}

fn present(path: PathBuf, remedy: &str) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent ({remedy})", path.display());
    None
}
