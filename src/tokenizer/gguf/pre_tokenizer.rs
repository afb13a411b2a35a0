//! The pre-tokenisers that `tokenizer.ggml.pre` names.
//!
//! # Source
//! The patterns are facts of the models' own tokenizer.json files; the names are those that llama.cpp's converter
//! writes for them.
use tokenizers::{
    PreTokenizerWrapper, SplitDelimiterBehavior,
    normalizers::{NFC, NormalizerWrapper},
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use super::{TokenizerError, unbuildable};

/// How text is cut into words before its bytes are merged.
#[derive(Clone, Copy)]
pub(super) struct PreTokenizer {
    names: &'static [&'static str],
    cut: Cut,
    nfc: bool,
    /// A word that is a token is taken whole, whatever the merges say.
    pub whole_words_first: bool,
    /// Plain text gets a BOS where the file does not say.
    pub add_bos: bool,
}

#[derive(Clone, Copy)]
enum Cut {
    /// GPT-2's own pattern, which the library builds in.
    Gpt2,
    /// Each digit alone, then GPT-2's pattern.
    DigitsThenGpt2,
    /// A pattern of the model's own.
    Pattern(&'static str),
}

const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const KNOWN: [PreTokenizer; 6] = [
    plain(&["gpt-2", "default", "mpt", "olmo", "jais", "phi-2"], Cut::Gpt2),
    plain(&["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"], Cut::DigitsThenGpt2),
    PreTokenizer { nfc: true, ..plain(&["qwen2", "deepseek-r1-qwen"], Cut::Pattern(QWEN2)) },
    PreTokenizer { nfc: true, ..plain(&["qwen35"], Cut::Pattern(QWEN35)) },
    PreTokenizer {
        whole_words_first: true,
        add_bos: true,
        ..plain(&["llama-bpe", "llama3", "llama-v3"], Cut::Pattern(LLAMA3))
    },
    PreTokenizer { whole_words_first: true, ..plain(&["gpt-4o"], Cut::Pattern(GPT4O)) },
];

const fn plain(names: &'static [&'static str], cut: Cut) -> PreTokenizer {
    PreTokenizer { names, cut, nfc: false, whole_words_first: false, add_bos: false }
}

/// Finds a pre-tokeniser by name. A file that names none, as those before llama.cpp knew the field, gets GPT-2's.
pub(super) fn find(name: Option<&str>) -> Result<PreTokenizer, TokenizerError> {
    let wanted = name.unwrap_or("gpt-2");
    let found = KNOWN.into_iter().find(|pre| pre.names.contains(&wanted));
    found.ok_or_else(|| {
        let known: Vec<&str> = KNOWN.iter().flat_map(|pre| pre.names.iter().copied()).collect();
        TokenizerError::UnknownPreTokenizer { pre: wanted.to_owned(), known: known.join(", ") }
    })
}

impl PreTokenizer {
    pub fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.nfc.then(|| NFC.into())
    }

    pub fn build(&self) -> Result<PreTokenizerWrapper, TokenizerError> {
        let bytes = |use_regex| PreTokenizerWrapper::from(ByteLevel::new(false, false, use_regex));
        Ok(match self.cut {
            Cut::Gpt2 => bytes(true),
            Cut::DigitsThenGpt2 => Sequence::new(vec![Digits::new(true).into(), bytes(true)]).into(),
            Cut::Pattern(pattern) => {
                let pattern = SplitPattern::Regex(pattern.to_owned());
                let split =
                    Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(unbuildable)?;
                Sequence::new(vec![split.into(), bytes(false)]).into()
            }
        })
    }
}
