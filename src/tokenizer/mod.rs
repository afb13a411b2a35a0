//! tokenizer.json and GGUF vocabularies; token bytes, special flags, stop ids.
//!
//! Both sources become one pipeline of the `tokenizers` crate, so that they tokenise alike. On top of it stands what
//! an engine needs: the bytes of each token (the grammar's trie is built from them), all ids that end a turn, whether
//! the model wants a BOS, and where in a text each token stands.
//!
//! Architecture invariant: ids are those of the model's true tokenizer, whichever file they were read from.
mod error;
mod gguf;
mod json;
mod pipeline;
mod stop;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::{ops::Range, path::Path, sync::Arc};

use sha2::{Digest, Sha256};

use crate::weights::{ModelMetadata, Weights};

pub use error::TokenizerError;
pub use gguf::{GgufTokenType, GgufVocabulary};
pub use pipeline::{Encoded, WholeText};

/// A model's tokenizer. Cheap to clone (`Arc` inside).
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    pipeline: pipeline::Pipeline,
    table: table::TokenTable,
    bos_id: Option<u32>,
    bos_text: Option<String>,
    eos_text: Option<String>,
    stop_ids: Vec<u32>,
    digest: String,
}

/// What a source yields, before its settings are digested.
struct Parts {
    pipeline: pipeline::Pipeline,
    table: table::TokenTable,
    bos_id: Option<u32>,
    bos_text: Option<String>,
    eos_text: Option<String>,
    stop_ids: Vec<u32>,
    // Has seen the vocabulary.
    hasher: Sha256,
}

/// How text that looks like a special token is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// `<|im_start|>` becomes its id: for text a template rendered.
    Parse,
    /// Special tokens are not recognised: for untrusted plain text.
    AsText,
}

impl Tokenizer {
    /// From a tokenizer.json file, with tokenizer_config.json, config.json and generation_config.json beside it, if there.
    ///
    /// # Errors
    /// [`TokenizerError`] names the file and what is wrong with it.
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        Ok(Self::from_parts(json::load(path, &[])?))
    }

    /// As [`Self::from_file`], with special tokens of these texts added where the file lacks them; their ids follow the
    /// file's own, in order.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_file_with_tokens(path: &Path, added: &[String]) -> Result<Self, TokenizerError> {
        Ok(Self::from_parts(json::load(path, added)?))
    }

    /// From GGUF metadata, or from the tokenizer.json in an HF folder.
    ///
    /// # Errors
    /// [`TokenizerError::NoTokenizer`] for a folder without one; else as the source's.
    pub fn from_weights(weights: &Weights) -> Result<Self, TokenizerError> {
        match weights.metadata() {
            ModelMetadata::Gguf(metadata) => {
                Self::from_gguf_vocabulary(GgufVocabulary::from_metadata(metadata)?)
            }
            ModelMetadata::HfFolder { folder, .. } => {
                let path = folder.join("tokenizer.json");
                if !path.is_file() {
                    return Err(TokenizerError::NoTokenizer { folder: folder.to_owned() });
                }
                Self::from_file(&path)
            }
        }
    }

    /// From the vocabulary a GGUF file describes.
    ///
    /// # Errors
    /// An unknown kind or pre-tokeniser is named; so are lists of the wrong length and ids past the vocabulary.
    pub fn from_gguf_vocabulary(vocabulary: GgufVocabulary) -> Result<Self, TokenizerError> {
        Ok(Self::from_parts(gguf::load(vocabulary)?))
    }

    fn from_parts(parts: Parts) -> Self {
        let Parts { pipeline, table, bos_id, bos_text, eos_text, stop_ids, mut hasher } = parts;
        hasher.update(format!("{bos_id:?}{bos_text:?}{stop_ids:?}"));
        let digest = crate::weights::hex(&hasher.finalize());
        Self { inner: Arc::new(Inner { pipeline, table, bos_id, bos_text, eos_text, stop_ids, digest }) }
    }

    /// Encodes; adds no BOS.
    ///
    /// Some byte-level vocabularies lack tokens for a few bytes (SmolLM2's for U+0004 and ten other control or very rare
    /// ones). The true tokenizers leave such characters out, so this does too, with a warning that counts the bytes.
    ///
    /// # Errors
    /// [`TokenizerError::Encode`] if the library fails on the text.
    pub fn encode(&self, text: &str, special: SpecialTokens) -> Result<Vec<u32>, TokenizerError> {
        self.inner.pipeline.encode(text, special)
    }

    /// Encodes with offsets, special tokens parsed except where their text lies in a `literal` byte range (content
    /// that a template was given, which must not be able to end its own turn). All other ids are those of
    /// [`Self::encode`] with [`SpecialTokens::Parse`]. Adds no BOS.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_rendered(&self, text: &str, literal: &[Range<usize>]) -> Result<Encoded, TokenizerError> {
        self.inner.pipeline.encode_rendered(text, literal)
    }

    /// Encodes a whole text with what tokenizer.json's post-processor puts around it (`[CLS]` and `[SEP]`, say), or the
    /// BOS that the model wants where there is none, in at most `limit` tokens. What is cut is the text's end.
    ///
    /// Padding and truncation of a tokenizer.json are left out.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_whole(
        &self,
        text: &str,
        special: SpecialTokens,
        limit: usize,
    ) -> Result<WholeText, TokenizerError> {
        self.inner.pipeline.encode_whole(text, special, self.inner.bos_id, limit)
    }

    /// How many tokens [`Self::encode_whole`] puts around a text.
    pub fn tokens_around(&self) -> usize {
        self.inner.pipeline.tokens_around(self.inner.bos_id)
    }

    /// As [`Self::encode`], each token as text: by its spelling in the vocabulary, or, where a tokenizer keeps it
    /// (Unigram does), the text that an unknown token stands for.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_tokens(&self, text: &str, special: SpecialTokens) -> Result<Vec<String>, TokenizerError> {
        self.inner.pipeline.encode_tokens(text, special)
    }

    /// The text that tokens, by their spelling in the vocabulary, decode to by tokenizer.json's own decoder, which may
    /// strip a leading space and tidy punctuation. Without a decoder they are joined by spaces.
    ///
    /// # Errors
    /// [`TokenizerError::Decode`] if the library fails on them.
    pub fn join_tokens(&self, tokens: Vec<String>) -> Result<String, TokenizerError> {
        self.inner.pipeline.join_tokens(tokens)
    }

    /// A token's spelling in the vocabulary (`Ġthe`, `▁the`, `##ing`).
    pub fn token_text(&self, id: u32) -> Option<String> {
        self.inner.pipeline.token_text(id)
    }

    /// Decodes, special tokens included as text, invalid UTF-8 as U+FFFD. Ids without a token add nothing.
    ///
    /// This is the concatenation of [`Self::token_bytes`]: no space is stripped in front, so that the decoding of a
    /// continuation appends to the decoding of what it continues.
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|id| self.token_bytes(*id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes a token stands for; a special token's text. `None` past the vocabulary and for ids in its gaps
    /// (a model's embedding is often padded past its tokenizer).
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.inner.table.bytes(id)
    }

    /// Whether the token is special (control).
    pub fn is_special(&self, id: u32) -> bool {
        self.inner.table.is_special(id)
    }

    /// The id of a token by its exact text, as the vocabulary spells it (`Ġthe`, `▁the`, `<|im_end|>`).
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.inner.table.id(text)
    }

    /// Number of ids: one past the highest.
    pub fn vocab_size(&self) -> usize {
        self.inner.table.len()
    }

    /// BOS, where the model wants one in front of plain text.
    pub fn bos_id(&self) -> Option<u32> {
        self.inner.bos_id
    }

    /// The text of the BOS token as templates see it (`bos_token`), whether or not plain text wants one.
    pub fn bos_text(&self) -> Option<&str> {
        self.inner.bos_text.as_deref()
    }

    /// The text of the EOS token as templates see it (`eos_token`).
    pub fn eos_text(&self) -> Option<&str> {
        self.inner.eos_text.as_deref()
    }

    /// All ids that end a turn or a text, ascending: the eos ids of tokenizer_config.json, config.json and
    /// generation_config.json, or a GGUF file's eos, eot and eom; and the well-known turn ends (`<|im_end|>`,
    /// `<end_of_turn>`, `<turn|>`, `<|eot_id|>`, `<|eom_id|>`, `<|end_of_text|>`, `<|endoftext|>`, `<|return|>`,
    /// `<|call|>`, `<|end_of_turn|>`, `<eos>`, `</s>`) that the vocabulary has as special tokens.
    pub fn stop_ids(&self) -> &[u32] {
        &self.inner.stop_ids
    }

    /// sha256 of vocabulary and settings, hex: part of result keys.
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("Tokenizer");
        debug.field("vocab_size", &self.vocab_size()).field("digest", &self.digest()).finish_non_exhaustive()
    }
}
