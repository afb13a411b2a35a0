//! [`TokenTable`]: the bytes each token stands for, and which tokens are special.
use std::collections::HashMap;

use super::TokenizerError;

/// Ids above this are refused: real vocabularies have under 300,000 tokens, and one id sizes the whole table.
pub(super) const MAX_VOCABULARY: usize = 1 << 22;

/// How a vocabulary's strings stand for bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelling {
    /// Each character stands for one byte, by GPT-2's table.
    ByteLevel,
    /// SentencePiece: `▁` stands for a space and, with byte fallback, `<0xNN>` for a byte.
    SentencePiece,
    /// The string itself.
    Plain,
}

/// One token as a vocabulary lists it.
pub(super) struct TokenEntry {
    /// The id.
    pub id: u32,
    /// The string in the vocabulary.
    pub text: String,
    /// Matched verbatim in text, before any merging.
    pub added: bool,
    /// A control token.
    pub special: bool,
}

/// Bytes and special flags of all tokens, by id.
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    // `starts[id]..starts[id + 1]` are the token's bytes.
    starts: Vec<usize>,
    present: Vec<bool>,
    special: Vec<bool>,
    ids: HashMap<String, u32>,
}

impl TokenTable {
    /// Builds the table. Of two tokens with one text, an added one is found by [`Self::id`], else the lower id.
    ///
    /// # Errors
    /// [`TokenizerError::IdOutOfRange`] for an id past [`MAX_VOCABULARY`].
    pub fn new(mut entries: Vec<TokenEntry>, spelling: Spelling) -> Result<Self, TokenizerError> {
        // Added tokens come last among equal ids, so that they decide what the id stands for.
        entries.sort_by_key(|entry| (entry.id, entry.added));
        let size = entries.last().map_or(0, |entry| entry.id as usize + 1);
        if size > MAX_VOCABULARY {
            let (field, id) = ("the vocabulary".to_owned(), size as i64 - 1);
            return Err(TokenizerError::IdOutOfRange { field, id, vocab_size: MAX_VOCABULARY });
        }
        let mut table = Self {
            bytes: Vec::new(),
            starts: vec![0],
            present: vec![false; size],
            special: vec![false; size],
            ids: HashMap::with_capacity(entries.len()),
        };
        let alphabet = byte_level_alphabet();
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            let id = entry.id as usize;
            table.special[id] |= entry.special;
            if entry.added {
                table.ids.insert(entry.text.clone(), entry.id);
            } else {
                table.ids.entry(entry.text.clone()).or_insert(entry.id);
            }
            if entries.peek().is_some_and(|next| next.id == entry.id) {
                continue;
            }
            table.starts.resize(id + 1, table.bytes.len());
            push_bytes(&mut table.bytes, &entry, spelling, &alphabet);
            table.starts.push(table.bytes.len());
            table.present[id] = true;
        }
        Ok(table)
    }

    /// One past the highest id.
    pub fn len(&self) -> usize {
        self.present.len()
    }

    /// The token's bytes.
    pub fn bytes(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        if !*self.present.get(id)? {
            return None;
        }
        self.bytes.get(*self.starts.get(id)?..*self.starts.get(id + 1)?)
    }

    /// Whether the token is a control token.
    pub fn is_special(&self, id: u32) -> bool {
        self.special.get(id as usize).copied().unwrap_or(false)
    }

    /// The id of a token's text as the vocabulary spells it.
    pub fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }
}

fn push_bytes(out: &mut Vec<u8>, entry: &TokenEntry, spelling: Spelling, alphabet: &HashMap<char, u8>) {
    let text = entry.text.as_str();
    match spelling {
        _ if entry.special => out.extend_from_slice(text.as_bytes()),
        Spelling::ByteLevel if !entry.added => {
            let mapped: Option<Vec<u8>> = text.chars().map(|c| alphabet.get(&c).copied()).collect();
            // A token outside of the alphabet can only be a literal that was never marked as added.
            out.extend(mapped.unwrap_or_else(|| text.as_bytes().to_vec()));
        }
        Spelling::SentencePiece => match fallback_byte(text) {
            Some(byte) if !entry.added => out.push(byte),
            _ => out.extend_from_slice(text.replace('▁', " ").as_bytes()),
        },
        Spelling::ByteLevel | Spelling::Plain => out.extend_from_slice(text.as_bytes()),
    }
}

/// The byte of a `<0xNN>` token.
pub(super) fn fallback_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if digits.len() != 2 {
        return None;
    }
    u8::from_str_radix(digits, 16).ok()
}

/// GPT-2's table: printable Latin-1 characters stand for themselves, the other bytes for the
/// characters from U+0100 on, in ascending order.
///
/// # Source
/// Radford et al. 2019, the `bytes_to_unicode` table of GPT-2's encoder.
pub(super) fn byte_level_alphabet() -> HashMap<char, u8> {
    let printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let mut next = 0x100_u32;
    let mut alphabet = HashMap::with_capacity(256);
    for byte in 0..=u8::MAX {
        let character = if printable(byte) {
            char::from(byte)
        } else {
            next += 1;
            char::from_u32(next - 1).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        alphabet.insert(character, byte);
    }
    alphabet
}
