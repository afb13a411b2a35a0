//! [`HarmonyMessage`].
use super::{ASSISTANT, CALL, CHANNEL, END, MESSAGE, START};

/// One message, as it is rendered: `<|start|>author to=recipient<|channel|>channel type<|message|>content<|end|>`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HarmonyMessage {
    /// A role, or a tool's name (`functions.weather`).
    pub author: String,
    /// Whom it is for; `None` for all.
    pub recipient: Option<String>,
    /// `analysis`, `commentary` or `final`.
    pub channel: Option<String>,
    /// The type of the content (`<|constrain|>json`).
    pub content_type: Option<String>,
    /// The content.
    pub content: String,
}

impl HarmonyMessage {
    /// A message to all.
    pub fn new(author: impl Into<String>, content: impl Into<String>) -> Self {
        Self { author: author.into(), content: content.into(), ..Self::default() }
    }

    /// The same message in a channel.
    #[must_use]
    pub fn in_channel(self, channel: &str) -> Self {
        Self { channel: Some(channel.to_owned()), ..self }
    }

    /// The same message to one recipient.
    #[must_use]
    pub fn to(self, recipient: &str) -> Self {
        Self { recipient: Some(recipient.to_owned()), ..self }
    }

    /// The same message with content of a type.
    #[must_use]
    pub fn of_type(self, content_type: &str) -> Self {
        Self { content_type: Some(content_type.to_owned()), ..self }
    }

    /// Appends the rendered message. What the model says to a recipient ends as a call.
    pub fn write(&self, text: &mut String) {
        text.push_str(START);
        text.push_str(&self.author);
        if let Some(recipient) = &self.recipient {
            text.push_str(" to=");
            text.push_str(recipient);
        }
        if let Some(channel) = &self.channel {
            text.push_str(CHANNEL);
            text.push_str(channel);
        }
        if let Some(content_type) = &self.content_type {
            text.push(' ');
            text.push_str(content_type);
        }
        text.push_str(MESSAGE);
        text.push_str(&self.content);
        text.push_str(if self.author == ASSISTANT && self.recipient.is_some() { CALL } else { END });
    }

    pub(super) fn is_in(&self, channel: &str) -> bool {
        self.channel.as_deref() == Some(channel)
    }
}
