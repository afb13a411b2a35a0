//! Tokenizers from tokenizer.json and the configuration files beside it.
use std::{panic::AssertUnwindSafe, path::Path};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tokenizers::AddedToken;

use super::{
    Parts, TokenizerError,
    pipeline::Pipeline,
    stop,
    table::{MAX_VOCABULARY, Spelling, TokenEntry, TokenTable},
};

/// The largest published tokenizer.json has 34 MB; what is far larger is not one.
const MAX_FILE_BYTES: u64 = 512 << 20;

#[derive(serde::Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Vec<Added>,
}

#[derive(serde::Deserialize)]
struct Added {
    id: u32,
    content: String,
}

/// Reads tokenizer.json and, from the same folder, tokenizer_config.json, config.json and generation_config.json
/// where they are. Special tokens of the texts `added` are put behind the file's own.
pub(super) fn load(path: &Path, added: &[String]) -> Result<Parts, TokenizerError> {
    let bytes = read(path)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    // Read first by our own parser, so that what is not JSON is refused before the library sees it.
    let file: File = serde_json::from_slice(&bytes).map_err(|error| damaged(path, error))?;
    let mut inner = parse(path, &bytes)?;
    let config_path = folder.join("tokenizer_config.json");
    let config = read_json(&config_path)?;
    check_added_ids(path, file, &inner)?;
    add_tokens(path, &mut inner, added)?;
    let table = TokenTable::new(entries(&inner), spelling(&inner))?;

    let bos_id = bos_id(&inner, &config, &table);
    let mut configured =
        named_token(&config, "eos_token").and_then(|text| table.id(text)).into_iter().collect::<Vec<_>>();
    for name in ["config.json", "generation_config.json"] {
        let path = folder.join(name);
        let value = read_json(&path)?;
        configured.extend(eos_ids(&path, &value)?);
    }
    let stop_ids = stop::stop_ids(&table, configured);

    let mut hasher = Sha256::new();
    hasher.update(b"tokenizer.json\0");
    hasher.update(&bytes);
    let bos_text = named_token(&config, "bos_token").map(str::to_owned);
    let eos_text = named_token(&config, "eos_token").map(str::to_owned);
    Ok(Parts { pipeline: Pipeline::new(inner), table, bos_id, bos_text, eos_text, stop_ids, hasher })
}

fn read(path: &Path) -> Result<Vec<u8>, TokenizerError> {
    let at = |source| TokenizerError::Read { path: path.to_owned(), source };
    let bytes = std::fs::metadata(path).map_err(at)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(TokenizerError::TooLarge { path: path.to_owned(), bytes, limit: MAX_FILE_BYTES });
    }
    std::fs::read(path).map_err(at)
}

fn read_json(path: &Path) -> Result<Value, TokenizerError> {
    match read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| damaged(path, error)),
        Err(TokenizerError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(Value::Null)
        }
        Err(error) => Err(error),
    }
}

fn parse(path: &Path, bytes: &[u8]) -> Result<tokenizers::Tokenizer, TokenizerError> {
    // The library unwraps in a few places on files whose parts contradict each other, so a damaged file can
    // make it panic. It is given only this file's bytes and its half-built value is dropped.
    let parsed = std::panic::catch_unwind(AssertUnwindSafe(|| tokenizers::Tokenizer::from_bytes(bytes)));
    match parsed {
        Ok(tokenizer) => tokenizer.map_err(|error| damaged(path, error)),
        Err(_) => Err(damaged(path, "its parts contradict each other")),
    }
}

/// The library numbers added tokens that its model lacks by itself. Where that is not the file's own number, every
/// text with the token would get a wrong id.
fn check_added_ids(path: &Path, file: File, inner: &tokenizers::Tokenizer) -> Result<(), TokenizerError> {
    for Added { id, content } in file.added_tokens {
        let given = inner.token_to_id(&content);
        if given != Some(id) {
            let given = given.map_or("none".to_owned(), |id| id.to_string());
            return Err(damaged(
                path,
                format!("the added token {content:?} has the id {id}, but its place gives {given}"),
            ));
        }
    }
    Ok(())
}

/// Adds special tokens behind the file's own. The library counts tokens to number them, so where ids have gaps a new
/// token could take the id of an old one.
fn add_tokens(
    path: &Path,
    inner: &mut tokenizers::Tokenizer,
    added: &[String],
) -> Result<(), TokenizerError> {
    let size = inner.get_vocab(true).into_values().max().map_or(0, |last| last as usize + 1);
    let new: Vec<&String> = added.iter().filter(|text| inner.token_to_id(text).is_none()).collect();
    let tokens: Vec<AddedToken> = added.iter().map(|text| AddedToken::from(text.clone(), true)).collect();
    inner.add_special_tokens(&tokens);
    let given = |text: &&String| inner.token_to_id(text).map(|id| id as usize);
    if new.iter().enumerate().any(|(place, text)| given(text) != Some(size + place)) {
        return Err(damaged(path, "its ids have gaps, so that no token can be added behind them"));
    }
    Ok(())
}

fn damaged(path: &Path, error: impl std::fmt::Display) -> TokenizerError {
    TokenizerError::Damaged { path: path.to_owned(), message: error.to_string() }
}

fn entries(inner: &tokenizers::Tokenizer) -> Vec<TokenEntry> {
    let model = inner.get_vocab(false).into_iter();
    let model = model.map(|(text, id)| TokenEntry { id, text, added: false, special: false });
    let added = inner.get_added_tokens_decoder().into_iter();
    let added =
        added.map(|(id, token)| TokenEntry { id, text: token.content, added: true, special: token.special });
    model.chain(added).collect()
}

fn spelling(inner: &tokenizers::Tokenizer) -> Spelling {
    let decoder = serde_json::to_value(inner.get_decoder()).unwrap_or(Value::Null);
    let kinds = decoder["decoders"].as_array().cloned().unwrap_or_else(|| vec![decoder]);
    let has = |kind: &str| kinds.iter().any(|decoder| decoder["type"] == kind);
    if has("ByteLevel") {
        Spelling::ByteLevel
    } else if has("ByteFallback") || has("Metaspace") {
        Spelling::SentencePiece
    } else {
        Spelling::Plain
    }
}

/// BOS goes in front of plain text if tokenizer_config.json's `add_bos_token` says so; where that is silent, if the
/// post-processor's template begins with a special token.
fn bos_id(inner: &tokenizers::Tokenizer, config: &Value, table: &TokenTable) -> Option<u32> {
    match config["add_bos_token"].as_bool() {
        Some(true) => table.id(named_token(config, "bos_token")?),
        Some(false) => None,
        None => {
            let processor = serde_json::to_value(inner.get_post_processor()).unwrap_or(Value::Null);
            template_bos(&processor).and_then(|text| table.id(text))
        }
    }
}

fn template_bos(processor: &Value) -> Option<&str> {
    if let Some(parts) = processor["processors"].as_array() {
        return parts.iter().find_map(template_bos);
    }
    let first = processor["single"].as_array()?.first()?;
    first["SpecialToken"]["id"].as_str()
}

/// A token that tokenizer_config.json names, as a string or as an object with `content`.
fn named_token<'a>(config: &'a Value, field: &str) -> Option<&'a str> {
    config[field].as_str().or_else(|| config[field]["content"].as_str())
}

/// `eos_token_id` of a config, an integer or a list, at the top or under `text_config`.
fn eos_ids(path: &Path, config: &Value) -> Result<Vec<u32>, TokenizerError> {
    let mut ids = Vec::new();
    for value in [&config["eos_token_id"], &config["text_config"]["eos_token_id"]] {
        let listed = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for id in listed.iter().filter(|id| !id.is_null()) {
            let number =
                id.as_i64().ok_or_else(|| damaged(path, format!("eos_token_id is {id}, not a token")))?;
            let in_range = u32::try_from(number).ok().filter(|id| (*id as usize) < MAX_VOCABULARY);
            let field = || format!("eos_token_id of {}", path.display());
            ids.push(in_range.ok_or_else(|| TokenizerError::IdOutOfRange {
                field: field(),
                id: number,
                vocab_size: MAX_VOCABULARY,
            })?);
        }
    }
    Ok(ids)
}
