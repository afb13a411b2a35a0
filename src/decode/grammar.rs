//! Grammars over tokens, by llguidance.

use super::{DecodeError, schema};
use crate::tokenizer::Tokenizer;
use llguidance::api::TopLevelGrammar;
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};
use std::sync::Arc;
use toktrie::{ApproximateTokEnv, INVALID_TOKEN, SimpleVob, TokEnv, TokRxInfo, TokTrie};

/// What the output must look like.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// A JSON schema. The output has no free whitespace; a schema that does not bound its strings, arrays, numbers
    /// and objects is refused with [`DecodeError::UnboundedSchema`].
    JsonSchema(serde_json::Value),
    /// Exactly one of these strings.
    Choice(Vec<String>),
    /// A regular expression (syntax of the `regex` crate) that the whole output matches.
    Regex(String),
}

/// A vocabulary as a grammar sees it.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// What each id stands for; a special token's text; empty where an id stands for nothing.
    pub token_bytes: Vec<Vec<u8>>,
    /// Whether each id is special: those are never text, so no grammar allows them inside the output.
    pub is_special: Vec<bool>,
    /// Ids that end an output.
    pub stop_ids: Vec<u32>,
}

impl Vocabulary {
    /// Reads a tokenizer's.
    pub fn from_tokenizer(tokenizer: &Tokenizer) -> Self {
        let ids = 0..u32::try_from(tokenizer.vocab_size()).unwrap_or(u32::MAX);
        Self {
            token_bytes: ids
                .clone()
                .map(|id| tokenizer.token_bytes(id).unwrap_or_default().to_vec())
                .collect(),
            is_special: ids.map(|id| tokenizer.is_special(id)).collect(),
            stop_ids: tokenizer.stop_ids().to_vec(),
        }
    }

    fn error(&self, message: String) -> DecodeError {
        DecodeError::Vocabulary { vocabulary: self.token_bytes.len(), message }
    }

    /// The trie's limits (node ids of 24 bits, depth of 10 bits) are asserts in toktrie, so they are checked here.
    fn trie(&self) -> Result<TokTrie, DecodeError> {
        const LONGEST_TOKEN: usize = 1_000;
        const MOST_TOKENS: usize = 1 << 22;
        let count = self.token_bytes.len();
        if count == 0 || count > MOST_TOKENS || self.is_special.len() != count {
            let flags = self.is_special.len();
            return Err(self.error(format!(
                "between 1 and {MOST_TOKENS} tokens and as many flags are needed, not {flags}"
            )));
        }
        if let Some(id) = self.stop_ids.iter().find(|&&id| id as usize >= count) {
            return Err(self.error(format!("stop id {id} is past the vocabulary")));
        }
        let mut words = Vec::with_capacity(count);
        for (id, (bytes, &is_special)) in self.token_bytes.iter().zip(&self.is_special).enumerate() {
            if bytes.len() > LONGEST_TOKEN {
                return Err(
                    self.error(format!("token {id} has {} bytes, more than {LONGEST_TOKEN}", bytes.len()))
                );
            }
            // A stop token ends the output whatever its flag says, so it is never text either.
            let is_control = is_special || self.stop_ids.contains(&(id as u32));
            let mut word = Vec::with_capacity(bytes.len() + 1);
            if is_control && !bytes.is_empty() {
                // toktrie marks special tokens by a byte that occurs in no UTF-8 text.
                word.push(TokTrie::SPECIAL_TOKEN_MARKER);
            }
            word.extend_from_slice(bytes);
            words.push(word);
        }
        let first_stop = self.stop_ids.first().copied().unwrap_or(INVALID_TOKEN);
        let trie = TokTrie::from(&TokRxInfo::new(count as u32, first_stop), &words);
        Ok(if self.stop_ids.is_empty() { trie } else { trie.with_eos_tokens(&self.stop_ids) })
    }
}

/// Compiles grammars for one tokenizer (holds the token trie). Cheap to clone.
#[derive(Clone)]
pub struct GrammarFactory {
    factory: Arc<ParserFactory>,
}

impl GrammarFactory {
    /// Builds the trie from the tokenizer's bytes, special flags and stop ids.
    ///
    /// # Errors
    /// [`DecodeError::Vocabulary`] where the trie's limits are passed.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, DecodeError> {
        Self::from_vocabulary(&Vocabulary::from_tokenizer(tokenizer))
    }

    /// As [`GrammarFactory::new`], from the vocabulary alone.
    pub fn from_vocabulary(vocabulary: &Vocabulary) -> Result<Self, DecodeError> {
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(vocabulary.trie()?));
        let mut factory =
            ParserFactory::new_simple(&environment).map_err(|error| vocabulary.error(error.to_string()))?;
        factory.quiet();
        factory.limits_mut().verbose_errors = false;
        Ok(Self { factory: Arc::new(factory) })
    }

    /// A fresh matcher.
    ///
    /// # Errors
    /// [`DecodeError::UnboundedSchema`], [`DecodeError::SchemaReference`], or [`DecodeError::GrammarCompile`] where
    /// the grammar is empty, malformed, unsatisfiable, or uses what llguidance does not know.
    pub fn start(&self, grammar: &Grammar) -> Result<GrammarState, DecodeError> {
        let kind = match grammar {
            Grammar::JsonSchema(_) => "JSON schema",
            Grammar::Choice(_) => "choice",
            Grammar::Regex(_) => "regex",
        };
        let fail = |message: String| DecodeError::GrammarCompile { kind, message };
        let top = match grammar {
            Grammar::JsonSchema(value) => json_schema(value)?,
            Grammar::Choice(options) if options.is_empty() => {
                return Err(fail("no choice is given".to_owned()));
            }
            Grammar::Choice(options) if options.iter().any(String::is_empty) => {
                return Err(fail("a choice is empty".to_owned()));
            }
            Grammar::Choice(options) => {
                let options: Vec<String> = options.iter().map(|option| escape_regex(option)).collect();
                TopLevelGrammar::from_regex(&options.join("|"))
            }
            Grammar::Regex(pattern) => TopLevelGrammar::from_regex(pattern),
        };
        let parser = self.factory.create_parser(top).map_err(|error| fail(format!("{error:#}")))?;
        let matcher = Matcher::new(Ok(parser));
        match matcher.get_error() {
            Some(message) => Err(fail(message)),
            None => Ok(GrammarState { matcher, tokens: 0 }),
        }
    }
}

/// A regular expression that matches `text` alone.
fn escape_regex(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_alphanumeric() {
            escaped.push(character);
        } else {
            escaped.push_str(&format!("\\x{{{:X}}}", u32::from(character)));
        }
    }
    escaped
}

fn json_schema(schema: &serde_json::Value) -> Result<TopLevelGrammar, DecodeError> {
    schema::check_bounded(schema)?;
    let mut schema = schema.clone();
    if schema.is_object() {
        // One spelling a value: between tokens of JSON there is nothing to choose, so no whitespace can be padded in.
        let options = JsonCompileOptions { whitespace_flexible: false, ..JsonCompileOptions::default() };
        options.apply_to(&mut schema);
    }
    Ok(TopLevelGrammar::from_json_schema(schema))
}

/// A grammar part way through an output.
///
/// A failed grammar stays failed: every later call is an error, and none ever allows all tokens instead.
pub struct GrammarState {
    matcher: Matcher,
    tokens: usize,
}

impl GrammarState {
    fn error(&self, message: impl std::fmt::Display) -> DecodeError {
        DecodeError::Grammar { tokens: self.tokens, message: message.to_string() }
    }

    /// Tokens allowed next (stop ids included where the grammar may end; stop ids alone once it is finished).
    ///
    /// # Errors
    /// [`DecodeError::Grammar`] where the matcher failed or no token of the vocabulary fits.
    pub fn allowed(&mut self) -> Result<SimpleVob, DecodeError> {
        self.matcher.compute_mask_or_eos().map_err(|error| self.error(error))
    }

    /// Takes a token. A stop id ends the output.
    ///
    /// # Errors
    /// [`DecodeError::Grammar`] where the grammar does not allow it.
    pub fn accept(&mut self, token: u32) -> Result<(), DecodeError> {
        if self.matcher.is_stopped() && !self.matcher.is_error() {
            return Err(self.error(format_args!("token {token} after the output was complete")));
        }
        self.matcher.consume_token(token).map_err(|error| self.error(error))?;
        self.tokens += 1;
        Ok(())
    }

    /// Whether the output is complete and nothing more may follow.
    pub fn is_finished(&self) -> bool {
        self.matcher.is_stopped() && self.matcher.stop_reason().is_ok()
    }
}

#[cfg(test)]
#[path = "grammar_tests.rs"]
mod tests;
