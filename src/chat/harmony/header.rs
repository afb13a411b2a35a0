//! [`Header`]: what stands between `<|start|>` and `<|message|>`.
use super::{ASSISTANT, CHANNEL, CONSTRAIN};

/// A message's header, parted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub author: String,
    pub recipient: Option<String>,
    pub channel: Option<String>,
    pub content_type: Option<String>,
}

impl Header {
    /// Reads a header; `begins_with_author` is false where the prompt already named the model.
    ///
    /// The recipient may stand with the author or with the channel.
    pub fn read(text: &str, begins_with_author: bool) -> Self {
        let (channel, before, after) = take_channel(text);
        let rest = format!("{before} {after}").replace(CONSTRAIN, &format!(" {CONSTRAIN}"));
        let mut words = rest.split_ascii_whitespace().peekable();
        let author = match words.peek() {
            Some(word) if *word == ASSISTANT || (begins_with_author && !word.starts_with("to=")) => {
                words.next().unwrap_or(ASSISTANT)
            }
            _ => ASSISTANT,
        };
        let mut header = Self { author: author.to_owned(), channel, ..Self::default() };
        let mut content_type: Vec<&str> = Vec::new();
        for word in words {
            match word.strip_prefix("to=") {
                Some(recipient) => header.recipient = Some(recipient.to_owned()),
                None => content_type.push(word),
            }
        }
        header.content_type = (!content_type.is_empty()).then(|| content_type.join(" "));
        header
    }

    /// Reads a header that no `<|message|>` ended: what follows the channel's name, or the author, is content.
    pub fn read_with_content(text: &str, begins_with_author: bool) -> (Self, String) {
        let text = text.trim_start();
        let author_end = match begins_with_author {
            true => text.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(text.len()),
            false => 0,
        };
        let author = if author_end == 0 { ASSISTANT } else { &text[..author_end] };
        let (channel, before, after) = take_channel(&text[author_end..]);
        let header = Self { author: author.to_owned(), channel, ..Self::default() };
        (header, format!("{before}{after}").trim().to_owned())
    }
}

/// The channel's name, and what stands before and after it.
fn take_channel(text: &str) -> (Option<String>, &str, &str) {
    let Some((before, after)) = text.split_once(CHANNEL) else {
        return (None, text, "");
    };
    let end = after.find(|c: char| c.is_whitespace() || c == '<').unwrap_or(after.len());
    let channel = (end > 0).then(|| after[..end].to_owned());
    (channel, before, &after[end..])
}
