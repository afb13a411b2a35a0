//! Tokenizers from GGUF metadata.
mod byte_level;
mod pre_tokenizer;
mod sentencepiece;
mod vocabulary;

use sha2::{Digest, Sha256};

use super::{
    Parts, TokenizerError,
    pipeline::Pipeline,
    stop,
    table::{Spelling, TokenEntry, TokenTable},
};
use tokenizers::AddedToken;

pub use vocabulary::{GgufTokenType, GgufVocabulary};

/// Builds a tokenizer from checked vocabulary fields.
pub(super) fn load(vocabulary: GgufVocabulary) -> Result<Parts, TokenizerError> {
    vocabulary.check()?;
    let hasher = digest(&vocabulary);
    let (inner, spelling, add_bos_by_default) = match vocabulary.model.as_str() {
        "gpt2" => byte_level::build(&vocabulary)?,
        "llama" => sentencepiece::build(&vocabulary)?,
        // The same spelling, with a list of merges.
        "gemma4" => sentencepiece::build_with_merges(&vocabulary, listed_merges(&vocabulary)?)?,
        model => {
            return Err(TokenizerError::UnknownModel { model: model.to_owned() });
        }
    };
    let table = TokenTable::new(entries(&vocabulary), spelling)?;
    let bos = vocabulary.bos.filter(|_| vocabulary.add_bos.unwrap_or(add_bos_by_default));
    let configured = [vocabulary.eos, vocabulary.eot, vocabulary.eom].into_iter().flatten();
    let stop_ids = stop::stop_ids(&table, configured);
    let text_of = |id: Option<u32>| vocabulary.tokens.get(id? as usize).cloned();
    let (bos_text, eos_text) = (text_of(vocabulary.bos), text_of(vocabulary.eos));
    Ok(Parts { pipeline: Pipeline::new(inner), table, bos_id: bos, bos_text, eos_text, stop_ids, hasher })
}

fn entries(vocabulary: &GgufVocabulary) -> Vec<TokenEntry> {
    let tokens = vocabulary.tokens.iter().enumerate();
    let entries = tokens.map(|(id, text)| {
        let kind = vocabulary.token_type(id);
        let special = kind == GgufTokenType::Control || kind == GgufTokenType::Unknown;
        TokenEntry { id: id as u32, text: text.clone(), added: kind.is_added(), special }
    });
    entries.collect()
}

/// The tokens that are matched verbatim before any merging: control tokens and user-defined ones.
fn added_tokens(vocabulary: &GgufVocabulary, spell: impl Fn(&str) -> String) -> Vec<AddedToken> {
    let tokens = vocabulary.tokens.iter().enumerate();
    let added = tokens.filter_map(|(id, text)| match vocabulary.token_type(id) {
        GgufTokenType::Control | GgufTokenType::Unknown => Some(AddedToken::from(text.clone(), true)),
        GgufTokenType::UserDefined => Some(AddedToken::from(spell(text), false)),
        _ => None,
    });
    added.map(|token| token.normalized(false)).collect()
}

/// The file's list of merges.
fn listed_merges(vocabulary: &GgufVocabulary) -> Result<Vec<(String, String)>, TokenizerError> {
    if vocabulary.merges.is_empty() {
        return Err(TokenizerError::MissingField { field: "tokenizer.ggml.merges" });
    }
    let merges = vocabulary.merges.iter().enumerate();
    let halves = merges.map(|(index, text)| match text.split_once(' ') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
            Ok((left.to_owned(), right.to_owned()))
        }
        _ => Err(TokenizerError::DamagedMerge { index, text: text.clone() }),
    });
    halves.collect()
}

/// Digests all that the ids depend on. Each string is preceded by its length, so that no two vocabularies read alike.
fn digest(vocabulary: &GgufVocabulary) -> Sha256 {
    let mut hasher = Sha256::new();
    let mut text = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    text("gguf");
    text(&vocabulary.model);
    text(vocabulary.pre.as_deref().unwrap_or(""));
    vocabulary.tokens.iter().for_each(|token| text(token));
    vocabulary.merges.iter().for_each(|merge| text(merge));
    vocabulary.token_types.iter().for_each(|kind| hasher.update((*kind as u32).to_le_bytes()));
    vocabulary.scores.iter().for_each(|score| hasher.update(score.to_le_bytes()));
    hasher.update(format!("{:?}", vocabulary.add_space_prefix));
    hasher
}

type Built = (tokenizers::Tokenizer, Spelling, bool);

fn unbuildable(error: impl std::fmt::Display) -> TokenizerError {
    TokenizerError::Build { message: error.to_string() }
}
