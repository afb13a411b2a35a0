//! [`ImportNotes`]: what an import dropped or changed, as counts that print on one line.
use std::{collections::BTreeMap, fmt};

/// Distinct names a tally keeps; a hostile file could otherwise fill memory with them.
const MAX_NAMES: usize = 32;
/// Characters of a name that are kept.
const MAX_NAME_CHARS: usize = 48;

/// Counts by name, bounded in names and in their length; the rest is counted under `...`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// Counts one more of `name`.
    pub fn add(&mut self, name: &str) {
        let mut key: String = name.chars().take(MAX_NAME_CHARS).collect();
        if self.0.len() >= MAX_NAMES && !self.0.contains_key(&key) {
            key = "...".to_owned();
        }
        *self.0.entry(key).or_default() += 1;
    }

    /// The count of `name`.
    pub fn count(&self, name: &str) -> usize {
        self.0.get(name).copied().unwrap_or(0)
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The counts on one line; a count of one goes without saying.
    fn describe(&self, what: &str) -> String {
        let describe_one = |(name, count): (&String, &usize)| match count {
            1 => name.escape_debug().to_string(),
            _ => format!("{} ({count})", name.escape_debug()),
        };
        let names: Vec<String> = self.0.iter().map(describe_one).collect();
        format!("{what}: {}", names.join(", "))
    }
}

/// What was dropped or changed in one history. `Display` gives one line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportNotes {
    /// Content that is kept by kind only (images, audio, files), by kind.
    pub unsupported_parts: Tally,
    /// Roles outside the known five, kept verbatim, by name.
    pub unknown_roles: Tally,
    /// Fields of messages that are not read, by name.
    pub dropped_fields: Tally,
    /// Fields of the object around the messages that are not read, by name.
    pub dropped_record_fields: Tally,
    /// Messages without any content; they are kept.
    pub empty_messages: usize,
    /// Refusals, kept as text.
    pub refusals_as_text: usize,
    /// Tool results inside user messages, which became messages of their own with role `tool`.
    pub split_tool_results: usize,
    /// Calls a message lists both as content and in `tool_calls`; kept once.
    pub repeated_calls: usize,
    /// Function calls whose text is not a JSON object with a name; kept as text.
    pub unparsed_calls: usize,
    /// System texts outside the message list, put in front of it as a system message.
    pub system_prepended: usize,
}

impl fmt::Display for ImportNotes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tallies = [
            (&self.unsupported_parts, "content kept by kind only"),
            (&self.unknown_roles, "unknown roles kept"),
            (&self.dropped_fields, "message fields not read"),
            (&self.dropped_record_fields, "record fields not read"),
        ];
        let counts = [
            (self.empty_messages, "empty messages kept"),
            (self.refusals_as_text, "refusals kept as text"),
            (self.split_tool_results, "tool results taken out of user messages"),
            (self.repeated_calls, "repeated tool calls dropped"),
            (self.unparsed_calls, "unreadable function calls kept as text"),
            (self.system_prepended, "system texts put in front"),
        ];
        let tallies = tallies.iter().filter(|(tally, _)| !tally.is_empty());
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = tallies
            .map(|(tally, what)| tally.describe(what))
            .chain(counts.map(|(count, what)| format!("{what}: {count}")))
            .collect();
        match parts.is_empty() {
            true => formatter.write_str("nothing dropped or changed"),
            false => formatter.write_str(&parts.join("; ")),
        }
    }
}
