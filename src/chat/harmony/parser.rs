//! [`HarmonyParser`]: a model's output, message by message, as it comes.
use super::{CALL, CHANNEL, END, HarmonyMessage, MESSAGE, RETURN, START, header::Header};

/// Where an output begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStart {
    /// In a header of the model's: the prompt ends with `<|start|>assistant`.
    Header,
    /// In the model's reasoning: the prompt ends with `<|channel|>analysis<|message|>`.
    Analysis,
    /// In front of a message.
    Outside,
}

/// A message that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedMessage {
    /// The message.
    pub message: HarmonyMessage,
    /// Whether its end was there too, or the output was cut off in it.
    pub is_complete: bool,
}

/// A place where an output broke the format, and how it was read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recovery {
    /// A header ended without `<|message|>`; what follows the channel's name was taken for the content.
    MissingMessageMarker,
    /// A message began without `<|start|>`.
    MissingStart,
    /// A message began before the last one ended; it was taken to end there.
    UnclosedMessage,
    /// A marker stood where it means nothing, and was left out.
    StrayMarker {
        /// The marker.
        marker: String,
    },
    /// The output ended in a header, which was left out.
    UnfinishedHeader {
        /// The header.
        header: String,
    },
    /// The model wrote a message in another's name, which was left out.
    ForeignAuthor {
        /// The author it named.
        author: String,
    },
}

impl Recovery {
    /// The name under which records count it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MissingMessageMarker => "missing_message_marker",
            Self::MissingStart => "missing_start",
            Self::UnclosedMessage => "unclosed_message",
            Self::StrayMarker { .. } => "stray_marker",
            Self::UnfinishedHeader { .. } => "unfinished_header",
            Self::ForeignAuthor { .. } => "foreign_author",
        }
    }
}

enum State {
    Outside,
    /// `from_prompt`: the prompt named the author.
    Header {
        text: String,
        from_prompt: bool,
    },
    Content {
        header: Header,
        text: String,
    },
}

/// Reads an output piece by piece. No output is an error: what breaks the format is read as well as it can be, and recorded.
pub struct HarmonyParser {
    state: State,
    /// Text at the end that may be the beginning of a marker.
    pending: String,
    messages: Vec<ParsedMessage>,
    recoveries: Vec<Recovery>,
}

/// Markers that mean something wherever they stand.
const MARKERS: [&str; 6] = [START, MESSAGE, CHANNEL, END, RETURN, CALL];

impl HarmonyParser {
    /// A parser of an output that begins there.
    pub fn new(start: StreamStart) -> Self {
        let state = match start {
            StreamStart::Header => State::Header { text: String::new(), from_prompt: true },
            StreamStart::Analysis => State::Content {
                header: Header::read(&format!("{CHANNEL}analysis"), false),
                text: String::new(),
            },
            StreamStart::Outside => State::Outside,
        };
        Self { state, pending: String::new(), messages: Vec::new(), recoveries: Vec::new() }
    }

    /// Reads on. Pieces may part the output anywhere between characters.
    pub fn push(&mut self, text: &str) {
        self.pending.push_str(text);
        let pending = std::mem::take(&mut self.pending);
        let mut rest = pending.as_str();
        while let Some((at, marker)) = first_marker(rest) {
            self.text(&rest[..at]);
            self.marker(marker);
            rest = &rest[at + marker.len()..];
        }
        let kept = unfinished_marker(rest);
        self.text(&rest[..rest.len() - kept]);
        self.pending = rest[rest.len() - kept..].to_owned();
    }

    /// Messages that have ended.
    pub fn messages(&self) -> &[ParsedMessage] {
        &self.messages
    }

    /// Channel and content, so far, of the message that is being written.
    pub fn current(&self) -> Option<(Option<&str>, &str)> {
        match &self.state {
            State::Content { header, text } => Some((header.channel.as_deref(), text)),
            State::Outside | State::Header { .. } => None,
        }
    }

    /// The output has ended: its messages, and where it broke the format.
    pub fn finish(mut self) -> (Vec<ParsedMessage>, Vec<Recovery>) {
        let pending = std::mem::take(&mut self.pending);
        self.text(&pending);
        match std::mem::replace(&mut self.state, State::Outside) {
            State::Outside => {}
            State::Content { header, text } => self.add(header, text, false),
            // After a prompt that already wrote the header, the output is all content.
            State::Header { text, from_prompt: true } if !text.contains(CHANNEL) => {
                self.add(Header::read("", false), text, false);
            }
            State::Header { text, .. } => {
                self.recoveries.push(Recovery::UnfinishedHeader { header: text.trim().to_owned() });
            }
        }
        (self.messages, self.recoveries)
    }

    fn text(&mut self, piece: &str) {
        match &mut self.state {
            State::Header { text, .. } | State::Content { text, .. } => text.push_str(piece),
            State::Outside if piece.trim().is_empty() => {}
            State::Outside => {
                self.recoveries.push(Recovery::MissingStart);
                self.state = State::Header { text: piece.to_owned(), from_prompt: false };
            }
        }
    }

    fn marker(&mut self, marker: &str) {
        let next_header = |text: &str| State::Header { text: text.to_owned(), from_prompt: text == CHANNEL };
        match (std::mem::replace(&mut self.state, State::Outside), marker) {
            (State::Outside, START) => self.state = next_header(""),
            (State::Outside, CHANNEL) => {
                self.recoveries.push(Recovery::MissingStart);
                self.state = next_header(CHANNEL);
            }
            (State::Outside, marker) => self.stray(marker),
            (State::Header { text, from_prompt }, MESSAGE) => {
                let header = Header::read(&text, !from_prompt);
                self.state = State::Content { header, text: String::new() };
            }
            (State::Header { mut text, from_prompt }, CHANNEL) => {
                // Of two channels the later counts.
                if let Some(first) = text.find(CHANNEL) {
                    text.truncate(first);
                    self.stray(CHANNEL);
                }
                text.push_str(CHANNEL);
                self.state = State::Header { text, from_prompt };
            }
            (State::Header { text, from_prompt }, marker) => {
                self.close_header(&text, from_prompt);
                if marker == START {
                    self.state = next_header("");
                }
            }
            (State::Content { header, text }, START | CHANNEL) => {
                self.recoveries.push(Recovery::UnclosedMessage);
                self.add(header, text, true);
                self.state = next_header(if marker == CHANNEL { CHANNEL } else { "" });
            }
            (state @ State::Content { .. }, MESSAGE) => {
                self.state = state;
                self.stray(MESSAGE);
            }
            (State::Content { header, text }, _) => self.add(header, text, true),
        }
    }

    /// Ends a header without a `<|message|>`.
    fn close_header(&mut self, text: &str, from_prompt: bool) {
        if from_prompt && !text.contains(CHANNEL) {
            // The prompt wrote the header, and this is the content.
            return self.add(Header::read("", false), text.to_owned(), true);
        }
        self.recoveries.push(Recovery::MissingMessageMarker);
        let (header, content) = Header::read_with_content(text, !from_prompt);
        if !content.is_empty() {
            self.add(header, content, true);
        }
    }

    fn stray(&mut self, marker: &str) {
        self.recoveries.push(Recovery::StrayMarker { marker: marker.to_owned() });
    }

    fn add(&mut self, header: Header, content: String, is_complete: bool) {
        let Header { author, recipient, channel, content_type } = header;
        let message = HarmonyMessage { author, recipient, channel, content_type, content };
        self.messages.push(ParsedMessage { message, is_complete });
    }
}

fn first_marker(text: &str) -> Option<(usize, &'static str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("<|") {
        let at = from + found;
        if let Some(marker) = MARKERS.iter().find(|marker| text[at..].starts_with(**marker)) {
            return Some((at, marker));
        }
        from = at + 2;
    }
    None
}

/// Bytes at the end of the text that may be the beginning of a marker.
fn unfinished_marker(text: &str) -> usize {
    let begins =
        |length: &usize| MARKERS.iter().any(|marker| marker.starts_with(&text[text.len() - length..]));
    let longest = MARKERS.iter().map(|marker| marker.len() - 1).max().unwrap_or(0);
    let lengths = (1..=longest.min(text.len())).rev();
    lengths.filter(|length| text.is_char_boundary(text.len() - length)).find(begins).unwrap_or(0)
}
