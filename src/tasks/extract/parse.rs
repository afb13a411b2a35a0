//! From an answer to constraints: the grammar that binds it, or the reading of free text.

use crate::decode::Grammar;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How answers are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtractionParse {
    /// The answer is bound by a grammar, so it is JSON of the asked shape or cut off.
    #[default]
    Grammar,
    /// The answer is free text, read as the paper does: JSON in a fence, else the last braces, else nothing.
    Paper,
}

/// Tokens one constraint and its evidence are given where they are scarce: two of a dozen words each.
const TOKENS_AN_ITEM: usize = 96;
/// Tokens of `{"text":"","evidence":""},`, rounded up.
const TOKENS_OF_MARKUP: usize = 12;
/// Tokens of `{"scs":[]}` and the end, rounded up.
const TOKENS_AROUND: usize = 8;
/// Characters of English prose a token holds, rounded down.
const CHARACTERS_A_TOKEN: usize = 3;

/// The bounds the grammar puts on one turn's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExtractionLimits {
    /// Most constraints a turn.
    pub max_items: usize,
    /// Most characters of a constraint.
    pub max_text: usize,
    /// Most characters of its evidence.
    pub max_evidence: usize,
}

impl Default for ExtractionLimits {
    fn default() -> Self {
        Self::WIDEST
    }
}

impl ExtractionLimits {
    /// What one turn may name where tokens are plenty.
    pub const WIDEST: Self = Self { max_items: 8, max_text: 300, max_evidence: 300 };

    /// Bounds under which the longest legal answer takes about `max_tokens`: one constraint for every
    /// `TOKENS_AN_ITEM`, each with what the tokens leave it, [`Self::WIDEST`] at most.
    ///
    /// Counted at `CHARACTERS_A_TOKEN`; an answer in characters that take more tokens can still be cut off, and is
    /// then a recorded failure.
    pub fn for_tokens(max_tokens: usize) -> Self {
        let max_items = (max_tokens / TOKENS_AN_ITEM).clamp(1, Self::WIDEST.max_items);
        let tokens = (max_tokens.saturating_sub(TOKENS_AROUND) / max_items).saturating_sub(TOKENS_OF_MARKUP);
        let characters = tokens.saturating_mul(CHARACTERS_A_TOKEN) / 2;
        Self {
            max_items,
            max_text: characters.clamp(1, Self::WIDEST.max_text),
            max_evidence: characters.clamp(1, Self::WIDEST.max_evidence),
        }
    }

    /// `{"scs":[{"text","evidence"}]}` within these bounds.
    pub fn grammar(&self) -> Grammar {
        Grammar::JsonSchema(json!({
            "type": "object",
            "properties": {"scs": {
                "type": "array",
                "maxItems": self.max_items,
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string", "minLength": 1, "maxLength": self.max_text},
                        "evidence": {"type": "string", "maxLength": self.max_evidence},
                    },
                    "required": ["text", "evidence"],
                    "additionalProperties": false,
                },
            }},
            "required": ["scs"],
            "additionalProperties": false,
        }))
    }
}

/// A constraint as the model wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundConstraint {
    /// The constraint.
    pub text: String,
    /// The words of the turn that state it; empty where the model gave none.
    pub evidence: String,
}

/// Reads an answer that a grammar bound. `None` where it is not JSON of that shape.
pub fn parse_answer(answer: &str) -> Option<Vec<FoundConstraint>> {
    constraints(&serde_json::from_str(answer.trim()).ok()?)
}

/// Reads free text: the last fenced block that is a JSON object, else the last JSON object in braces. `None` where
/// there is neither, or it has no list `scs`.
pub fn parse_paper(answer: &str) -> Option<Vec<FoundConstraint>> {
    let object = last_fenced_object(answer).or_else(|| last_object(answer))?;
    constraints(&object)
}

/// Entries without a text are passed over: they say nothing.
fn constraints(value: &Value) -> Option<Vec<FoundConstraint>> {
    let entries = value.get("scs")?.as_array()?;
    let text_of =
        |entry: &Value, field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let found = entries
        .iter()
        .map(|entry| FoundConstraint { text: text_of(entry, "text"), evidence: text_of(entry, "evidence") })
        .filter(|found| !found.text.trim().is_empty())
        .collect();
    Some(found)
}

fn last_fenced_object(text: &str) -> Option<Value> {
    // Between fences, odd pieces are inside: outside, inside, outside ...; a last inside without its fence is cut off.
    let pieces: Vec<&str> = text.split("```").collect();
    let complete = pieces.len().saturating_sub(1);
    let mut objects = pieces[..complete].iter().skip(1).step_by(2).filter_map(|piece| {
        let body = piece.strip_prefix("json").or_else(|| piece.strip_prefix("JSON")).unwrap_or(piece);
        serde_json::from_str::<Value>(body.trim()).ok().filter(Value::is_object)
    });
    objects.next_back()
}

/// The last JSON object that is not inside another.
fn last_object(text: &str) -> Option<Value> {
    let mut last = None;
    let mut at = 0;
    while let Some(offset) = text[at..].find('{') {
        at += offset;
        let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                last = Some(value);
                at += values.byte_offset();
            }
            _ => at += 1,
        }
    }
    last
}
