//! [`SystemMessage`] and the developer's message: contents made of sections.
use super::tools::{self, ToolNamespace};

/// How long the model reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasoningEffort {
    /// Shortly.
    Low,
    /// The default.
    Medium,
    /// At length.
    High,
}

impl ReasoningEffort {
    /// Reads `low`, `medium` or `high`.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High].into_iter().find(|effort| effort.name() == name)
    }

    /// The name that the system message has.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What the first message tells the model of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemMessage {
    /// Who it is.
    pub identity: String,
    /// Year and month that its training data ends with.
    pub knowledge_cutoff: String,
    /// Today, `YYYY-MM-DD`.
    pub date: Option<String>,
    /// How long it reasons.
    pub effort: ReasoningEffort,
    /// The channels that it may use; it has to name one in every message.
    pub channels: Vec<String>,
    /// Tools that are built in.
    pub tools: Vec<ToolNamespace>,
}

impl Default for SystemMessage {
    /// What gpt-oss was trained with.
    fn default() -> Self {
        Self {
            identity: "You are ChatGPT, a large language model trained by OpenAI.".to_owned(),
            knowledge_cutoff: "2024-06".to_owned(),
            date: None,
            effort: ReasoningEffort::Medium,
            channels: ["analysis", "commentary", "final"].map(str::to_owned).to_vec(),
            tools: Vec::new(),
        }
    }
}

impl SystemMessage {
    /// The message's content. `defines_functions` says that a developer message of the conversation has a namespace
    /// `functions`, which the model must then call in the right channel.
    pub fn content(&self, defines_functions: bool) -> String {
        let mut top = format!("{}\nKnowledge cutoff: {}", self.identity, self.knowledge_cutoff);
        if let Some(date) = &self.date {
            top.push_str("\nCurrent date: ");
            top.push_str(date);
        }
        let mut sections = vec![top, format!("Reasoning: {}", self.effort.name())];
        sections.extend(tools::section(&self.tools));
        if !self.channels.is_empty() {
            let channels = self.channels.join(", ");
            let mut section =
                format!("# Valid channels: {channels}. Channel must be included for every message.");
            if defines_functions {
                section.push_str("\nCalls to these tools must go to the commentary channel: 'functions'.");
            }
            sections.push(section);
        }
        sections.join("\n\n")
    }
}

/// The content of a developer's message: instructions, and the tools that the developer brings.
pub fn developer_content(instructions: Option<&str>, tools: &[ToolNamespace]) -> String {
    let instructions = instructions.map(|text| format!("# Instructions\n\n{text}"));
    let sections: Vec<String> = instructions.into_iter().chain(tools::section(tools)).collect();
    sections.join("\n\n")
}
