//! [`Pipeline`]: text to ids and byte offsets, over the `tokenizers` crate.
use std::{cell::Cell, ops::Range};

use tokenizers::tokenizer::{
    AddedVocabulary, Decoder, Encoding, Model, OffsetReferential, OffsetType, PostProcessor,
    PreTokenizedString, PreTokenizer,
};
use tokenizers::utils::truncation::TruncationDirection;

use super::{SpecialTokens, TokenizerError};

/// The ids of a text and where in it each token stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens.
    pub ids: Vec<u32>,
    /// For each token, the bytes of the text it covers. Tokens that share a character cover it all.
    pub offsets: Vec<Range<usize>>,
}

/// A whole text as an encoder takes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WholeText {
    /// The tokens, with the special ones around them.
    pub ids: Vec<u32>,
    /// Whether the text was cut to its limit.
    pub is_cut: bool,
}

/// Normaliser, added tokens, pre-tokeniser and merges of one tokenizer.
///
/// Post-processing, padding and truncation of a tokenizer.json are left out: they add or cut tokens. Only
/// [`Pipeline::encode_whole`] post-processes.
pub(super) struct Pipeline {
    inner: tokenizers::Tokenizer,
    // As `inner`'s, but with the special tokens read as plain text.
    unspecial: AddedVocabulary,
    // Whether a special token is searched for in normalised text; else specials are found without normalising.
    normalizes_specials: bool,
}

impl Pipeline {
    pub fn new(inner: tokenizers::Tokenizer) -> Self {
        let mut unspecial = inner.get_added_vocabulary().clone();
        unspecial.set_encode_special_tokens(true);
        let added = unspecial.get_added_tokens_decoder();
        let normalizes_specials = added.values().any(|token| token.special && token.normalized);
        Self { inner, unspecial, normalizes_specials }
    }

    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, TokenizerError> {
        let pieces = self.tokenize(text, special)?;
        let encoding =
            pieces.into_encoding(None, 0, OffsetType::None).map_err(|error| failed(text, error))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes at most `limit` tokens, those of the post-processor included; the text's end is what is cut.
    pub fn encode_whole(
        &self,
        text: &str,
        special: SpecialTokens,
        bos: Option<u32>,
        limit: usize,
    ) -> Result<WholeText, TokenizerError> {
        let pieces = self.tokenize(text, special)?;
        let mut encoding: Encoding =
            pieces.into_encoding(None, 0, OffsetType::None).map_err(|error| failed(text, error))?;
        let around = self.tokens_around(bos);
        let room = limit.saturating_sub(around);
        let is_cut = encoding.len() > room;
        if is_cut {
            encoding.truncate(room, 0, TruncationDirection::Right);
        }
        let Some(processor) = self.inner.get_post_processor() else {
            let ids = bos.into_iter().chain(encoding.get_ids().iter().copied()).collect();
            return Ok(WholeText { ids, is_cut });
        };
        let processed = processor.process(encoding, None, true).map_err(|error| failed(text, error))?;
        Ok(WholeText { ids: processed.get_ids().to_vec(), is_cut })
    }

    /// How many tokens [`Self::encode_whole`] adds.
    pub fn tokens_around(&self, bos: Option<u32>) -> usize {
        match self.inner.get_post_processor() {
            Some(processor) => processor.added_tokens(false),
            None => usize::from(bos.is_some()),
        }
    }

    /// As [`Self::encode`], each token as text: its spelling, or what it stands for where the vocabulary lacks it.
    pub fn encode_tokens(&self, text: &str, special: SpecialTokens) -> Result<Vec<String>, TokenizerError> {
        let pieces = self.tokenize(text, special)?;
        let encoding =
            pieces.into_encoding(None, 0, OffsetType::Byte).map_err(|error| failed(text, error))?;
        Ok(encoding.get_tokens().to_vec())
    }

    /// The token's spelling in the vocabulary.
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The text that tokens, by their spelling, decode to.
    pub fn join_tokens(&self, tokens: Vec<String>) -> Result<String, TokenizerError> {
        match self.inner.get_decoder() {
            Some(decoder) => {
                decoder.decode(tokens).map_err(|error| TokenizerError::Decode { message: error.to_string() })
            }
            None => Ok(tokens.join(" ")),
        }
    }

    /// Encodes with special tokens parsed, except where their text lies in a `literal` range.
    ///
    /// The ranges do not overlap; their order does not matter. Text without special tokens in its literal ranges is encoded whole, in one pass. Otherwise the stretches
    /// between the special tokens that do count are encoded one by one; those tokens part the text in the whole
    /// pass too, so all other ids stay the same. (The one exception is a tokenizer with Metaspace's prefix scheme
    /// `first`, which none of the supported families has: there each stretch would get the prefix.)
    pub fn encode_rendered(&self, text: &str, literal: &[Range<usize>]) -> Result<Encoded, TokenizerError> {
        let specials = self.special_matches(text);
        let mut literal: Vec<&Range<usize>> = literal.iter().filter(|range| !range.is_empty()).collect();
        literal.sort_by_key(|range| range.start);
        // Contents do not overlap, so the last one that begins before a token's end is the only one it can lie in.
        let in_literal = |at: &Range<usize>| {
            let before = literal.partition_point(|range| range.start < at.end);
            before > 0 && literal[before - 1].end > at.start
        };
        if !specials.iter().any(|found| in_literal(&found.core)) {
            return self.encode_stretch(text, SpecialTokens::Parse);
        }
        let mut encoded = Encoded::default();
        let mut cursor = 0;
        for found in specials.iter().filter(|found| !in_literal(&found.core)) {
            self.append_stretch(&mut encoded, text, cursor..found.range.start)?;
            encoded.ids.push(found.id);
            encoded.offsets.push(found.range.clone());
            cursor = found.range.end;
        }
        self.append_stretch(&mut encoded, text, cursor..text.len())?;
        Ok(encoded)
    }

    fn append_stretch(
        &self,
        encoded: &mut Encoded,
        text: &str,
        range: Range<usize>,
    ) -> Result<(), TokenizerError> {
        let stretch = self.encode_stretch(&text[range.clone()], SpecialTokens::AsText)?;
        encoded.ids.extend(stretch.ids);
        let shifted = stretch.offsets.into_iter().map(|at| at.start + range.start..at.end + range.start);
        encoded.offsets.extend(shifted);
        Ok(())
    }

    fn encode_stretch(&self, text: &str, special: SpecialTokens) -> Result<Encoded, TokenizerError> {
        let pieces = self.tokenize(text, special)?;
        let encoding =
            pieces.into_encoding(None, 0, OffsetType::Byte).map_err(|error| failed(text, error))?;
        let offsets = encoding.get_offsets().iter().map(|&(start, end)| start..end).collect();
        Ok(Encoded { ids: encoding.get_ids().to_vec(), offsets })
    }

    fn tokenize(&self, text: &str, special: SpecialTokens) -> Result<PreTokenizedString, TokenizerError> {
        let added = match special {
            SpecialTokens::Parse => self.inner.get_added_vocabulary(),
            SpecialTokens::AsText => &self.unspecial,
        };
        let mut pieces = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(|error| failed(text, error))?;
        }
        let model = self.inner.get_model();
        let unspelled = Cell::new(0);
        pieces
            .tokenize(|piece| {
                let tokens = model.tokenize(piece.get())?;
                let spelled = tokens.last().map_or(0, |token| token.offsets.1);
                unspelled.set(unspelled.get() + piece.get().len().saturating_sub(spelled));
                Ok(tokens)
            })
            .map_err(|error| failed(text, error))?;
        if unspelled.get() > 0 {
            tracing::warn!(
                bytes = unspelled.get(),
                "the vocabulary has no tokens for some bytes of a text; they are left out, as the true tokenizer does"
            );
        }
        Ok(pieces)
    }

    fn special_matches(&self, text: &str) -> Vec<SpecialMatch> {
        let added = self.inner.get_added_vocabulary();
        let normalizer = self.inner.get_normalizer().filter(|_| self.normalizes_specials);
        let pieces = added.extract_and_normalize(normalizer, text);
        let mut found = Vec::new();
        for (_, (start, end), tokens) in pieces.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            let Some([token]) = tokens.as_deref() else {
                continue;
            };
            let Some(content) = added.simple_id_to_token(token.id) else {
                continue;
            };
            if added.is_special_token(&content) {
                // A token that strips the space around it matches that space too, which is no reason to call it content.
                let core_start = start + text[start..end].find(content.as_str()).unwrap_or(0);
                let core = core_start..(core_start + content.len()).min(end);
                found.push(SpecialMatch { id: token.id, range: start..end, core });
            }
        }
        found
    }
}

struct SpecialMatch {
    id: u32,
    range: Range<usize>,
    core: Range<usize>,
}

fn failed(text: &str, error: tokenizers::Error) -> TokenizerError {
    TokenizerError::Encode { bytes: text.len(), message: error.to_string() }
}
