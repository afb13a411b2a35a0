//! [`Vocabulary`]: how a family of encoders spells tokens, and which of them are forced.

use crate::model::encoder::EncoderFamily;
use crate::tokenizer::{SpecialTokens, Tokenizer, TokenizerError};

/// Tokens that are always kept: the paper's setting.
const FORCED: [&str; 2] = ["\n", "?"];

/// Where a window ends if it can.
const WINDOW_ENDS: [&str; 2] = [".", "\n"];

/// Special tokens that the reference adds to a vocabulary, as stand-ins for forced tokens that it lacks. Published
/// checkpoints have rows for all of them.
const STAND_INS: usize = 100;

/// ASCII punctuation in code order: a token is punctuation if it is part of this.
const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

/// The texts of the added tokens.
pub(super) fn stand_ins() -> Vec<String> {
    (0..STAND_INS).map(|index| format!("[NEW{index}]")).collect()
}

/// How tokens are spelled.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    family: EncoderFamily,
    /// Forced tokens that are no single token, each with its stand-in.
    stand_ins: Vec<(&'static str, String)>,
}

impl Vocabulary {
    /// Looks up which forced tokens need a stand-in.
    pub(super) fn new(family: EncoderFamily, tokenizer: &Tokenizer) -> Result<Self, TokenizerError> {
        let mut needed = Vec::new();
        for (token, stand_in) in FORCED.into_iter().zip(stand_ins()) {
            if tokenizer.encode(token, SpecialTokens::Parse)?.len() != 1 {
                needed.push((token, stand_in));
            }
        }
        Ok(Self { family, stand_ins: needed })
    }

    /// The tokens put around a window.
    ///
    /// The reference builds its windows with mBERT's `[CLS]` and `[SEP]` whichever the encoder, and XLM-RoBERTa's
    /// vocabulary lacks both, so that its windows stand between unknown tokens. Its results are those of that.
    pub(super) fn around(&self) -> (&'static str, &'static str) {
        match self.family {
            EncoderFamily::Bert => ("[CLS]", "[SEP]"),
            EncoderFamily::Roberta => ("<unk>", "<unk>"),
        }
    }

    /// Whether a token is special: unknown characters are too, and so are never kept.
    pub(super) fn is_special(&self, token: &str) -> bool {
        match self.family {
            EncoderFamily::Bert => matches!(token, "[CLS]" | "[SEP]" | "[UNK]" | "[PAD]" | "[MASK]"),
            EncoderFamily::Roberta => matches!(token, "<s>" | "</s>" | "<unk>" | "<pad>" | "<mask>"),
        }
    }

    /// Whether a token begins a word.
    pub(super) fn begins_word(&self, token: &str) -> bool {
        match self.family {
            EncoderFamily::Bert => self.is_forced(self.pure(token)) || !token.starts_with("##"),
            EncoderFamily::Roberta => {
                PUNCTUATION.contains(token) || self.is_forced(token) || token.starts_with('▁')
            }
        }
    }

    /// A token without the mark of its place in a word.
    pub(super) fn pure<'t>(&self, token: &'t str) -> &'t str {
        match self.family {
            EncoderFamily::Bert => token.trim_start_matches('#'),
            EncoderFamily::Roberta => token.trim_start_matches('▁'),
        }
    }

    /// Whether a token is always kept.
    pub(super) fn is_forced(&self, token: &str) -> bool {
        FORCED.contains(&token) || self.stand_ins.iter().any(|(_, stand_in)| stand_in == token)
    }

    /// Whether a window may end with this token.
    pub(super) fn ends_window(&self, token: &str) -> bool {
        let stands_for_end =
            |(forced, stand_in): &(&str, String)| WINDOW_ENDS.contains(forced) && stand_in == token;
        WINDOW_ENDS.contains(&token) || self.stand_ins.iter().any(stands_for_end)
    }

    /// A text with stand-ins in place of forced tokens.
    pub(super) fn with_stand_ins(&self, text: &str) -> String {
        let replace = |text: String, (token, stand_in): &(&str, String)| text.replace(token, stand_in);
        self.stand_ins.iter().fold(text.to_owned(), replace)
    }

    /// A text with forced tokens in place of their stand-ins.
    pub(super) fn with_forced_tokens(&self, text: &str) -> String {
        let replace = |text: String, (token, stand_in): &(&str, String)| text.replace(stand_in, token);
        self.stand_ins.iter().fold(text.to_owned(), replace)
    }
}
