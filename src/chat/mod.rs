//! Chat templates, and splitting reasoning from answer.
//!
//! A template is run as `transformers` runs it, then checked: every message's content must occur in the rendered
//! prompt, in order. Templates refuse roles they do not know, or leave messages out without a word; then the least
//! invasive [`Adaptation`] that keeps every message is applied and recorded, or the rendering is an error.
//!
//! Adaptations are tried in this order: tool turns as they are, [`Adaptation::SeparatedToolCalls`],
//! [`Adaptation::ToolsAsText`]; within each, instructions as they are, [`Adaptation::FoldedIntoSystem`],
//! [`Adaptation::FoldedIntoFirstUser`]; within each, without and with [`Adaptation::MergedEqualRoles`].
//!
//! gpt-oss is rendered by [`harmony`] instead of its template, which has no place for a later system or developer message.
//!
//! Special tokens that stand in a message's content are tokenised as text, where `transformers` would read them as the
//! tokens: content that spells `<|im_end|>` must not end its turn. Roles stand in the markup, so a role of no known name is
//! refused. All other ids are those of the whole prompt.
//!
//! Architecture invariant: no message is lost in rendering. Reasoning of past turns is no content: templates drop it on
//! purpose.
mod adapt;
mod date;
mod environment;
mod error;
pub mod harmony;
mod locate;
mod parser;
mod python;
mod reasoning;
mod render;
mod source;
#[cfg(test)]
mod tests;
mod transcript;
mod turn;

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::{history::Message, history::Role, tokenizer::Tokenizer, weights::Weights};

pub use error::ChatError;

use date::Date;
use environment::Template;
use harmony::Recovery;
use reasoning::{PromptState, Style};
use render::{Format, Renderer, Rendering};

/// How a model's conversations are written. Cheap to clone (`Arc` inside).
#[derive(Clone)]
pub struct ChatTemplate {
    inner: Arc<Inner>,
}

struct Inner {
    source: Source,
    style: Style,
    // The vocabulary's names for the tokens, which templates may write.
    bos_text: String,
    eos_text: String,
    stop_strings: Vec<String>,
    digest: String,
}

enum Source {
    Plain,
    Jinja(Box<Template>),
    Harmony,
}

/// Settings of one rendering.
#[derive(Debug, Clone)]
pub struct RenderOptions {
    /// Appends the header of the assistant's turn.
    pub add_generation_prompt: bool,
    /// `enable_thinking` for templates that know it; `None` leaves it undefined.
    pub thinking: Option<bool>,
    /// `reasoning_effort` for templates that know it.
    pub reasoning_effort: Option<String>,
    /// The date templates see (`strftime_now`), `YYYY-MM-DD`.
    pub date: String,
}

/// A change made so that no message is lost.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adaptation {
    /// Developer and later system messages were folded into the first system message.
    FoldedIntoSystem,
    /// System and developer messages were folded into the first user message.
    FoldedIntoFirstUser,
    /// Consecutive messages of one role were merged.
    MergedEqualRoles,
    /// Assistant messages with calls became the text and one message a call, each followed by its result.
    SeparatedToolCalls,
    /// The template knows no tools: calls were written into the assistant's text and results into user messages.
    ToolsAsText,
    /// The model has no template: the documented plain transcript was used.
    PlainTranscript,
}

impl Adaptation {
    /// The name under which records have it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::FoldedIntoSystem => "folded_into_system",
            Self::FoldedIntoFirstUser => "folded_into_first_user",
            Self::MergedEqualRoles => "merged_equal_roles",
            Self::SeparatedToolCalls => "separated_tool_calls",
            Self::ToolsAsText => "tools_as_text",
            Self::PlainTranscript => "plain_transcript",
        }
    }
}

/// A rendered and tokenised prompt.
#[derive(Debug, Clone)]
pub struct RenderedPrompt {
    /// The text.
    pub text: String,
    /// Its tokens, tokenised whole, BOS included where the model wants one.
    pub token_ids: Vec<u32>,
    /// For each input message, the token range that covers its content (and its calls). Tokens on its edges may
    /// hold markup too. Empty for a message without content.
    pub spans: Vec<std::ops::Range<usize>>,
    /// What was adapted.
    pub adaptations: Vec<Adaptation>,
}

/// A model's output, split.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ParsedOutput {
    /// The reasoning, where there is some.
    pub reasoning: Option<String>,
    /// The answer, trimmed of template markers.
    pub answer: String,
    /// Whether reasoning was opened and never closed (the answer is then empty).
    pub unfinished_reasoning: bool,
    /// Tool calls as raw text blocks, taken out of the answer.
    pub tool_calls: Vec<String>,
    /// Where a Harmony output broke the format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
}

impl ChatTemplate {
    /// From tokenizer_config.json / chat_template.jinja / GGUF metadata; a plain transcript where there is none. A template of
    /// Harmony messages (gpt-oss) tells the format, and [`Self::harmony`] stands in for it.
    ///
    /// # Errors
    /// [`ChatError`] names the file, or the line of the template.
    pub fn from_weights(weights: &Weights, tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        match source::find(weights)? {
            Some(source) if Style::of(&source) == Style::Harmony => Ok(Self::harmony()),
            Some(source) => Self::from_jinja(&source, tokenizer),
            None => Ok(Self::plain_transcript()),
        }
    }

    /// From Jinja text.
    ///
    /// # Errors
    /// [`ChatError::Syntax`] names the line.
    pub fn from_jinja(source: &str, tokenizer: &Tokenizer) -> Result<Self, ChatError> {
        let template = Template::compile(source)?;
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        Ok(Self {
            inner: Arc::new(Inner {
                source: Source::Jinja(Box::new(template)),
                style: Style::of(source),
                bos_text: text(tokenizer.bos_text()),
                eos_text: text(tokenizer.eos_text()),
                stop_strings: Vec::new(),
                digest: hex_digest(source),
            }),
        })
    }

    /// The transcript that stands in for a template: `Role: content` and an empty line for each message, with
    /// `Assistant:` at the end; it stops where the model writes the next role's label after an empty line.
    pub fn plain_transcript() -> Self {
        Self {
            inner: Arc::new(Inner {
                source: Source::Plain,
                style: Style::Plain,
                bos_text: String::new(),
                eos_text: String::new(),
                stop_strings: transcript::stop_strings(),
                digest: hex_digest(transcript::FORMAT),
            }),
        }
    }

    /// [`harmony`]: every message keeps its role. Knows [`RenderOptions::reasoning_effort`] `low`, `medium` (where none is
    /// set) and `high`, and no other.
    pub fn harmony() -> Self {
        Self {
            inner: Arc::new(Inner {
                source: Source::Harmony,
                style: Style::Harmony,
                bos_text: String::new(),
                eos_text: String::new(),
                stop_strings: Vec::new(),
                digest: hex_digest(harmony::FORMAT),
            }),
        }
    }

    /// Renders and tokenises.
    ///
    /// # Errors
    /// [`ChatError::UnknownRole`] names the message; [`ChatError::Refused`] and [`ChatError::Dropped`] name the message that no adaptation could keep; else the
    /// template failed, ran too long, or the date is none.
    pub fn render(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        options: &RenderOptions,
    ) -> Result<RenderedPrompt, ChatError> {
        if messages.is_empty() {
            return Err(ChatError::Empty);
        }
        let unknown = messages.iter().enumerate().find_map(|(index, message)| match &message.role {
            Role::Other(role) => Some(ChatError::UnknownRole { index, role: role.clone() }),
            _ => None,
        });
        if let Some(error) = unknown {
            return Err(error);
        }
        let turns = turn::turns(messages);
        let rendering = match self.renderer(options)? {
            Some(renderer) => renderer.render(&turns)?,
            None => {
                let (text, found) = transcript::write(&turns, options.add_generation_prompt);
                Rendering { text, found, adaptations: vec![Adaptation::PlainTranscript] }
            }
        };
        render::tokenize(tokenizer, rendering, messages.len())
    }

    fn renderer<'a>(&'a self, options: &'a RenderOptions) -> Result<Option<Renderer<'a>>, ChatError> {
        let date =
            Date::parse(&options.date).ok_or_else(|| ChatError::Date { date: options.date.clone() })?;
        let Inner { source, bos_text, eos_text, .. } = &*self.inner;
        let format = match source {
            Source::Plain => return Ok(None),
            Source::Jinja(template) => Format::Jinja(template),
            Source::Harmony => Format::Harmony,
        };
        Ok(Some(Renderer { format, options, date, bos_text, eos_text }))
    }

    /// Text to append after the generation prompt so that reasoning is closed and empty
    /// (`None` where the model does not reason, or the rendering already closed it).
    pub fn closed_reasoning(&self, options: &RenderOptions) -> Option<String> {
        self.inner.style.close(self.prompt_state(options)).map(str::to_owned)
    }

    /// Whether the model reasons before it answers under these options: its template knows reasoning, and the
    /// generation prompt does not close it.
    pub fn reasons(&self, options: &RenderOptions) -> bool {
        self.prompt_state(options) != PromptState::Closed
    }

    /// Text that ends the model's reasoning (`</think>\n\n`), where it reasons. For gpt-oss it is
    /// `<|channel|>final<|message|>`: analysis may be in several messages, and this opens the answer.
    pub fn reasoning_end(&self) -> Option<&str> {
        self.inner.style.end()
    }

    /// Reads the state of the reasoning off the generation prompt that follows a minimal conversation.
    fn prompt_state(&self, options: &RenderOptions) -> PromptState {
        let conversation = turn::turns(&[Message::text(Role::User, "Hello")]);
        let text = |add_generation_prompt| {
            let options = RenderOptions { add_generation_prompt, ..options.clone() };
            let renderer = self.renderer(&options).ok().flatten()?;
            renderer.text(&conversation, &mut str::to_owned).ok()
        };
        let (Some(with), Some(without)) = (text(true), text(false)) else {
            // No rendering to read it off: what the template's source says holds.
            return self.inner.style.prompt_state("");
        };
        self.inner.style.prompt_state(with.strip_prefix(without.as_str()).unwrap_or(&with))
    }

    /// Splits an output that was generated under default options (thinking not set).
    ///
    /// Under other options use [`Self::parse_output_for`]: where the generation prompt opens the reasoning (Qwen3.5
    /// unless thinking is off), an output without an end of reasoning is all reasoning.
    pub fn parse_output(&self, text: &str) -> ParsedOutput {
        let date = "2000-01-01".to_owned();
        let options =
            RenderOptions { add_generation_prompt: true, thinking: None, reasoning_effort: None, date };
        self.parse_output_for(text, &options)
    }

    /// Splits an output that was generated after a prompt of these options.
    pub fn parse_output_for(&self, text: &str, options: &RenderOptions) -> ParsedOutput {
        parser::parse(text, self.inner.style, self.prompt_state(options) == PromptState::Open)
    }

    /// Extra strings that end a turn (used by the plain transcript).
    pub fn stop_strings(&self) -> &[String] {
        &self.inner.stop_strings
    }

    /// sha256 of the template's source, hex; of the format's name for Harmony and the plain transcript.
    pub fn digest(&self) -> &str {
        &self.inner.digest
    }
}

impl std::fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = formatter.debug_struct("ChatTemplate");
        debug.field("style", &self.inner.style).field("digest", &self.digest()).finish_non_exhaustive()
    }
}

fn hex_digest(text: &str) -> String {
    crate::weights::hex(&Sha256::digest(text))
}
