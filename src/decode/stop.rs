//! When the text has ended: incremental detokenisation with stop strings.

use crate::tokenizer::Tokenizer;

/// Incremental detokenisation with stop strings.
#[derive(Clone)]
pub struct StopChecker {
    tokenizer: Tokenizer,
    buffer: StopBuffer,
}

impl StopChecker {
    /// For these stop strings; empty ones are ignored.
    pub fn new(tokenizer: Tokenizer, stop: Vec<String>) -> Self {
        Self { tokenizer, buffer: StopBuffer::new(stop) }
    }

    /// Takes a token; true when a stop string is now complete. Ids past the vocabulary stand for no text.
    pub fn push(&mut self, token: u32) -> bool {
        self.buffer.push(self.tokenizer.token_bytes(token).unwrap_or_default())
    }

    /// The text so far, cut before the stop string. See [`StopBuffer::text`].
    pub fn text(&self) -> String {
        self.buffer.text()
    }
}

/// The bytes of an output, and whether a stop string has come.
///
/// Works on bytes: a token may end inside a character, and a stop string may begin inside one token and end inside
/// another. UTF-8 synchronises itself, so a stop string is never found inside another character.
#[derive(Debug, Clone)]
pub struct StopBuffer {
    bytes: Vec<u8>,
    stop: Vec<Vec<u8>>,
    /// Where the stop string that came first begins.
    cut: Option<usize>,
}

impl StopBuffer {
    /// For these stop strings; empty ones are ignored.
    pub fn new(stop: Vec<String>) -> Self {
        let stop = stop.into_iter().filter(|text| !text.is_empty()).map(String::into_bytes).collect();
        Self { bytes: Vec::new(), stop, cut: None }
    }

    /// Takes a token's bytes; true when a stop string is complete (now or before: later bytes are not kept).
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        if self.cut.is_some() {
            return true;
        }
        let old_length = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.cut = self
            .stop
            .iter()
            .filter_map(|stop| {
                // Only a match that ends in the new bytes can be new.
                let from = old_length.saturating_sub(stop.len() - 1);
                let found = self.bytes[from..].windows(stop.len()).position(|window| window == stop);
                found.map(|offset| from + offset)
            })
            .min();
        self.cut.is_some()
    }

    /// The text so far, cut before the stop string.
    ///
    /// A character whose last bytes have not come yet is left out, so what `text` returned stays a prefix of what it
    /// will return (until a stop string cuts it). Bytes that can never become UTF-8 are shown as U+FFFD.
    pub fn text(&self) -> String {
        let bytes = &self.bytes[..self.cut.unwrap_or(self.bytes.len())];
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            let is_last = chunks.peek().is_none();
            let may_go_on = is_last && is_incomplete(chunk.invalid());
            if !chunk.invalid().is_empty() && !may_go_on {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Whether more bytes could still make this the start of a character.
fn is_incomplete(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(stop: &[&str]) -> StopBuffer {
        StopBuffer::new(stop.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn a_stop_string_over_token_edges_is_found_and_cut() {
        let mut buffer = buffer(&["</s>"]);
        assert!(!buffer.push(b"answer <"));
        assert!(!buffer.push(b"/"));
        assert!(!buffer.push(b"s"));
        assert!(buffer.push(b"> and more"));
        assert_eq!(buffer.text(), "answer ");
        assert!(buffer.push(b"ignored"));
        assert_eq!(buffer.text(), "answer ");
    }

    #[test]
    fn the_stop_string_that_begins_first_cuts() {
        let mut buffer = buffer(&["cd", "bcde", ""]);
        assert!(buffer.push(b"abcdef"));
        assert_eq!(buffer.text(), "a");
    }

    #[test]
    fn a_false_start_is_not_a_stop() {
        let mut buffer = buffer(&["aab"]);
        assert!(!buffer.push(b"a"));
        assert!(!buffer.push(b"a"));
        assert!(!buffer.push(b"a"));
        assert!(buffer.push(b"b"));
        assert_eq!(buffer.text(), "a");
    }

    #[test]
    fn characters_split_over_tokens_come_whole() {
        let mut buffer = buffer(&["é!"]);
        let bytes = "naïve 🦀 é".as_bytes();
        let whole = "naïve 🦀 é";
        for &byte in bytes {
            assert!(!buffer.push(&[byte]));
            let text = buffer.text();
            assert!(whole.starts_with(&text), "{text:?}");
        }
        assert_eq!(buffer.text(), whole);
        assert!(buffer.push(b"!"));
        assert_eq!(buffer.text(), "naïve 🦀 ");
    }

    #[test]
    fn bytes_that_cannot_be_text_are_replaced_and_an_open_character_waits() {
        let mut buffer = buffer(&[]);
        buffer.push(b"a\xffb");
        assert_eq!(buffer.text(), "a\u{fffd}b");
        buffer.push(b"\xe2\x82");
        assert_eq!(buffer.text(), "a\u{fffd}b");
        buffer.push(b"x");
        assert_eq!(buffer.text(), "a\u{fffd}b\u{fffd}x");
    }
}
