//! [`Style`]: how a model writes its reasoning, told by its template.

/// The markup of a model's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// No reasoning.
    Plain,
    /// `<think>...</think>` (Qwen3, Qwen3.5, DeepSeek R1, SmolLM3).
    ThinkTags,
    /// `<|channel>thought ... <channel|>` (Gemma 4).
    GemmaChannel,
    /// Channels `analysis`, `commentary` and `final` (gpt-oss).
    Harmony,
}

impl Style {
    /// Reads it off the template's source.
    pub fn of(source: &str) -> Self {
        if source.contains("<|channel|>") && source.contains("<|message|>") {
            Self::Harmony
        } else if source.contains("<|channel>") {
            Self::GemmaChannel
        } else if source.contains("</think>") {
            Self::ThinkTags
        } else {
            Self::Plain
        }
    }

    fn open(self) -> &'static str {
        match self {
            Self::ThinkTags => "<think>",
            Self::GemmaChannel => "<|channel>thought",
            Self::Harmony => "<|channel|>analysis<|message|>",
            Self::Plain => "",
        }
    }

    /// Text that ends the reasoning; the answer follows.
    pub fn end(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::ThinkTags => Some("</think>\n\n"),
            Self::GemmaChannel => Some("<channel|>"),
            Self::Harmony => Some("<|channel|>final<|message|>"),
        }
    }

    /// What a generation prompt leaves the model to do.
    pub fn prompt_state(self, generation_prompt: &str) -> PromptState {
        let tail = generation_prompt.trim_end();
        let end = self.end().map_or("", str::trim_end);
        if self == Self::Plain || tail.ends_with(end) {
            PromptState::Closed
        } else if tail.ends_with(self.open()) {
            PromptState::Open
        } else {
            PromptState::Untouched
        }
    }

    /// Text that, after such a generation prompt, closes an empty reasoning.
    pub fn close(self, state: PromptState) -> Option<&'static str> {
        match (self, state) {
            (Self::Plain, _) | (_, PromptState::Closed) => None,
            (Self::ThinkTags, PromptState::Untouched) => Some("<think>\n\n</think>\n\n"),
            (Self::ThinkTags, PromptState::Open) => Some("\n</think>\n\n"),
            (Self::GemmaChannel, PromptState::Untouched) => Some("<|channel>thought\n<channel|>"),
            (Self::GemmaChannel, PromptState::Open) => Some("\n<channel|>"),
            (Self::Harmony, PromptState::Untouched) => {
                Some("<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>")
            }
            (Self::Harmony, PromptState::Open) => {
                Some("<|end|><|start|>assistant<|channel|>final<|message|>")
            }
        }
    }
}

/// Where a generation prompt stands in the reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PromptState {
    /// It opened no reasoning: the model does.
    Untouched,
    /// It opened one.
    Open,
    /// It opened and closed one, or the model does not reason.
    Closed,
}
