//! SentencePiece-style BPE, with scores (`tokenizer.ggml.model` is `llama`) or a list of merges (`gemma4`).
//!
//! The former lists no merges. SentencePiece joins, again and again, the two neighbours whose joined piece has the best
//! score, the leftmost of equals. Each piece's possible halves, ordered by its score, are exactly such a list of
//! merges, and the `tokenizers` crate applies them with a heap.
use std::{cmp::Reverse, collections::HashMap};

use tokenizers::{
    decoders::{
        DecoderWrapper, byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence as DecoderSequence,
    },
    models::bpe::BPE,
    normalizers::{NormalizerWrapper, Prepend, Replace, Sequence},
};

use super::{Built, GgufTokenType, GgufVocabulary, Spelling, TokenizerError, added_tokens, unbuildable};

const SPACE: &str = "▁";

/// The halves of all pieces may have this many bytes together. Gemma 3's have 6 MB; a hostile vocabulary of ever longer
/// pieces of one letter would have the square of its own size.
const MAX_MERGE_BYTES: usize = 256 << 20;

pub(super) fn build(vocabulary: &GgufVocabulary) -> Result<Built, TokenizerError> {
    if vocabulary.scores.is_empty() {
        return Err(TokenizerError::MissingField { field: "tokenizer.ggml.scores" });
    }
    let pieces = pieces(vocabulary);
    let merges = merges(vocabulary, &pieces, &ids(&pieces))?;
    build_with_merges(vocabulary, merges)
}

/// Builds a tokenizer that spells as SentencePiece does and joins by `merges`, in their order.
pub(super) fn build_with_merges(
    vocabulary: &GgufVocabulary,
    merges: Vec<(String, String)>,
) -> Result<Built, TokenizerError> {
    let pieces = pieces(vocabulary);
    let ids = ids(&pieces);
    let owned = ids.iter().map(|(text, id)| ((*text).to_owned(), *id));
    let mut model = BPE::builder()
        .vocab_and_merges(owned.collect::<tokenizers::models::bpe::Vocab>(), merges)
        .byte_fallback(true)
        .fuse_unk(true);
    let unknown = (0..pieces.len()).find(|id| vocabulary.token_type(*id) == GgufTokenType::Unknown);
    if let Some(unknown) = unknown.or_else(|| ids.get("<unk>").map(|id| *id as usize)) {
        model = model.unk_token(pieces[unknown].clone());
    }

    let mut inner = tokenizers::Tokenizer::new(model.build().map_err(unbuildable)?);
    inner.with_normalizer(Some(normalizer(vocabulary)?));
    inner.with_decoder(Some(decoder()?));
    inner.add_tokens(&added_tokens(vocabulary, spell_spaces));
    Ok((inner, Spelling::SentencePiece, true))
}

fn pieces(vocabulary: &GgufVocabulary) -> Vec<String> {
    (0..vocabulary.tokens.len()).map(|id| spelled(vocabulary, id)).collect()
}

/// The id of each piece; the lowest one of equal pieces.
fn ids(pieces: &[String]) -> HashMap<&str, u32> {
    let mut ids = HashMap::with_capacity(pieces.len());
    for (id, piece) in pieces.iter().enumerate() {
        ids.entry(piece.as_str()).or_insert(id as u32);
    }
    ids
}

/// A piece as the model spells it. GGUF writes user-defined runs of spaces as spaces, all other pieces with `▁`.
fn spelled(vocabulary: &GgufVocabulary, id: usize) -> String {
    let text = &vocabulary.tokens[id];
    match vocabulary.token_type(id) {
        GgufTokenType::UserDefined => spell_spaces(text),
        _ => text.clone(),
    }
}

/// Only runs of nothing but spaces: they go through the normaliser, so that the run of `▁` it makes of them has to be
/// joined by merges. Any other user-defined token is searched for in the text as it stands.
fn spell_spaces(text: &str) -> String {
    if text.bytes().all(|byte| byte == b' ') { text.replace(' ', SPACE) } else { text.to_owned() }
}

/// All ways to halve each piece into two pieces, best score first. User-defined pieces come before any score, longest
/// first, so that a run of spaces is taken as long as it can be before its last space joins a word.
fn merges(
    vocabulary: &GgufVocabulary,
    pieces: &[String],
    ids: &HashMap<&str, u32>,
) -> Result<Vec<(String, String)>, TokenizerError> {
    let mut found: Vec<Merge> = Vec::new();
    let mut bytes = 0;
    for (id, piece) in pieces.iter().enumerate() {
        let user_defined = match vocabulary.token_type(id) {
            GgufTokenType::Normal => false,
            GgufTokenType::UserDefined => true,
            _ => continue,
        };
        let length = piece.chars().count();
        for (left_length, (at, _)) in piece.char_indices().enumerate().skip(1) {
            let (left, right) = piece.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                let score = if user_defined { f32::INFINITY } else { vocabulary.scores[id] };
                bytes += piece.len() + size_of::<(String, String)>();
                if bytes > MAX_MERGE_BYTES {
                    return Err(TokenizerError::TooManyMerges {
                        pieces: pieces.len(),
                        limit: MAX_MERGE_BYTES,
                    });
                }
                found.push(Merge { score, left_length, right_length: length - left_length, id, at });
            }
        }
    }
    // Of the ways to make one piece, the true tokenizers list the one with the longer left half first.
    found.sort_by(|a, b| {
        let lengths = |merge: &Merge| Reverse((merge.left_length, merge.right_length));
        b.score.total_cmp(&a.score).then_with(|| lengths(a).cmp(&lengths(b))).then_with(|| a.id.cmp(&b.id))
    });
    let halves = |merge: &Merge| {
        let (left, right) = pieces[merge.id].split_at(merge.at);
        (left.to_owned(), right.to_owned())
    };
    Ok(found.iter().map(halves).collect())
}

struct Merge {
    score: f32,
    left_length: usize,
    right_length: usize,
    id: usize,
    at: usize,
}

fn normalizer(vocabulary: &GgufVocabulary) -> Result<NormalizerWrapper, TokenizerError> {
    let replace = Replace::new(" ", SPACE).map_err(unbuildable)?;
    // SentencePiece's own default, and llama.cpp's where the file is silent, is to put a space in front.
    Ok(match vocabulary.add_space_prefix.unwrap_or(true) {
        true => Sequence::new(vec![Prepend::new(SPACE.to_owned()).into(), replace.into()]).into(),
        false => replace.into(),
    })
}

fn decoder() -> Result<DecoderWrapper, TokenizerError> {
    let replace = Replace::new(SPACE, " ").map_err(unbuildable)?;
    let parts = vec![replace.into(), ByteFallback::new().into(), Fuse::new().into()];
    Ok(DecoderSequence::new(parts).into())
}
