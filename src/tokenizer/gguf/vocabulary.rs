//! [`GgufVocabulary`]: the `tokenizer.ggml.*` fields of a GGUF file.
use crate::{
    tokenizer::{TokenizerError, table::MAX_VOCABULARY},
    weights::GgufMetadata,
};

/// The kind of a token, as `tokenizer.ggml.token_type` numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufTokenType {
    /// A piece of text.
    Normal = 1,
    /// Stands for what the vocabulary cannot spell.
    Unknown = 2,
    /// A control token.
    Control = 3,
    /// Matched verbatim before any merging.
    UserDefined = 4,
    /// Never produced.
    Unused = 5,
    /// One byte, written `<0xNN>`.
    Byte = 6,
}

impl GgufTokenType {
    fn from_number(number: i64) -> Option<Self> {
        use GgufTokenType::{Byte, Control, Normal, Unknown, Unused, UserDefined};
        [Normal, Unknown, Control, UserDefined, Unused, Byte].into_iter().find(|kind| *kind as i64 == number)
    }

    /// Whether text is searched for the token before it is merged.
    pub(super) fn is_added(self) -> bool {
        matches!(self, Self::Control | Self::Unknown | Self::UserDefined)
    }
}

/// The vocabulary of a GGUF file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`: `gpt2`, `llama` or `gemma4`.
    pub model: String,
    /// `tokenizer.ggml.pre`: how text is cut before merging, for `gpt2`.
    pub pre: Option<String>,
    /// The tokens' texts, by id.
    pub tokens: Vec<String>,
    /// Their kinds; empty where the file does not say, which makes all of them normal.
    pub token_types: Vec<GgufTokenType>,
    /// Their scores, for `llama`: of two possible merges the one with the higher score goes first.
    pub scores: Vec<f32>,
    /// The merges in order, for `gpt2` and `gemma4`: two tokens parted by a space.
    pub merges: Vec<String>,
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn.
    pub eot: Option<u32>,
    /// Ends a message that waits for a tool.
    pub eom: Option<u32>,
    /// Whether plain text gets a BOS; `None` where the file does not say.
    pub add_bos: Option<bool>,
    /// Whether text gets a space in front, for `llama` and `gemma4`; `None` where the file does not say.
    pub add_space_prefix: Option<bool>,
}

impl GgufVocabulary {
    /// Takes the fields out of a GGUF file's metadata.
    ///
    /// # Errors
    /// Fields of the wrong type, unknown token types and ids that cannot be.
    pub fn from_metadata(metadata: &GgufMetadata) -> Result<Self, TokenizerError> {
        let owned =
            |texts: Option<Vec<&str>>| texts.map(|list| list.into_iter().map(str::to_owned).collect());
        let missing = |field| TokenizerError::MissingField { field };
        let types = metadata.i64s("tokenizer.ggml.token_type")?.unwrap_or_default();
        let id = |key: &str| -> Result<Option<u32>, TokenizerError> {
            let Some(value) = metadata.u64(key)? else {
                return Ok(None);
            };
            let out_of_range = |_| TokenizerError::IdOutOfRange {
                field: key.to_owned(),
                id: i64::try_from(value).unwrap_or(i64::MAX),
                vocab_size: MAX_VOCABULARY,
            };
            u32::try_from(value).map(Some).map_err(out_of_range)
        };
        Ok(Self {
            model: metadata
                .string("tokenizer.ggml.model")?
                .ok_or_else(|| missing("tokenizer.ggml.model"))?
                .to_owned(),
            pre: metadata.string("tokenizer.ggml.pre")?.map(str::to_owned),
            tokens: owned(metadata.strings("tokenizer.ggml.tokens")?)
                .ok_or_else(|| missing("tokenizer.ggml.tokens"))?,
            token_types: Self::token_types(&types)?,
            scores: metadata.f32s("tokenizer.ggml.scores")?.unwrap_or_default(),
            merges: owned(metadata.strings("tokenizer.ggml.merges")?).unwrap_or_default(),
            bos: id("tokenizer.ggml.bos_token_id")?,
            eos: id("tokenizer.ggml.eos_token_id")?,
            eot: id("tokenizer.ggml.eot_token_id")?,
            eom: id("tokenizer.ggml.eom_token_id")?,
            add_bos: metadata.bool("tokenizer.ggml.add_bos_token")?,
            add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
        })
    }

    /// Reads `tokenizer.ggml.token_type`. A 0 (undefined) counts as normal, as it does in llama.cpp.
    ///
    /// # Errors
    /// [`TokenizerError::Build`] names the token and its number.
    pub fn token_types(numbers: &[i64]) -> Result<Vec<GgufTokenType>, TokenizerError> {
        let one = |(id, number): (usize, &i64)| match number {
            0 => Ok(GgufTokenType::Normal),
            _ => GgufTokenType::from_number(*number).ok_or_else(|| TokenizerError::Build {
                message: format!("tokenizer.ggml.token_type of token {id} is {number}, not 1 to 6"),
            }),
        };
        numbers.iter().enumerate().map(one).collect()
    }

    /// The kind of a token.
    pub(super) fn token_type(&self, id: usize) -> GgufTokenType {
        self.token_types.get(id).copied().unwrap_or(GgufTokenType::Normal)
    }

    /// Checks that lists agree in length and ids are in range.
    pub(super) fn check(&self) -> Result<(), TokenizerError> {
        let expected = self.tokens.len();
        if expected == 0 {
            return Err(TokenizerError::MissingField { field: "tokenizer.ggml.tokens" });
        }
        if expected > MAX_VOCABULARY {
            let (field, id) = ("tokenizer.ggml.tokens".to_owned(), expected as i64 - 1);
            return Err(TokenizerError::IdOutOfRange { field, id, vocab_size: MAX_VOCABULARY });
        }
        let types = ("tokenizer.ggml.token_type", self.token_types.len());
        for (field, found) in [types, ("tokenizer.ggml.scores", self.scores.len())] {
            if found != 0 && found != expected {
                return Err(TokenizerError::LengthMismatch { field, expected, found });
            }
        }
        let ids = [("bos", self.bos), ("eos", self.eos), ("eot", self.eot), ("eom", self.eom)];
        for (name, id) in ids {
            if let Some(id) = id.filter(|id| *id as usize >= expected) {
                let field = format!("tokenizer.ggml.{name}_token_id");
                return Err(TokenizerError::IdOutOfRange { field, id: i64::from(id), vocab_size: expected });
            }
        }
        Ok(())
    }
}
