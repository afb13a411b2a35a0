//! [`ConstraintRegistry`]: the constraints found so far.

use super::parse::FoundConstraint;
use crate::tasks::text::fold_whitespace;
use serde::{Deserialize, Serialize};

/// The constraints found so far, in the order they were found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintRegistry {
    /// The constraints.
    pub constraints: Vec<RegisteredConstraint>,
}

/// A constraint, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredConstraint {
    /// The constraint, as the model wrote it.
    pub text: String,
    /// The words of the turn that state it, as the model quoted them.
    pub evidence: String,
    /// Index of the user message in the history, from 0.
    pub message: usize,
    /// Whether the evidence occurs in that message (whitespace folded). False marks a quotation the model made up.
    pub evidence_found: bool,
}

impl ConstraintRegistry {
    /// Adds what was found in a turn; exact duplicates of a constraint's text are dropped. Returns how many were added.
    pub fn add(&mut self, found: Vec<FoundConstraint>, message: usize, user_message: &str) -> usize {
        let before = self.constraints.len();
        let turn = fold_whitespace(user_message);
        for FoundConstraint { text, evidence } in found {
            let text = text.trim().to_owned();
            if self.constraints.iter().any(|known| known.text == text) {
                continue;
            }
            let quoted = fold_whitespace(&evidence);
            let evidence_found = !quoted.is_empty() && turn.contains(&quoted);
            self.constraints.push(RegisteredConstraint { text, evidence, message, evidence_found });
        }
        self.constraints.len() - before
    }

    /// The constraints' texts, in order, as a prompt lists them. Line breaks inside a text become spaces, so that a
    /// numbered list stays one.
    pub fn texts(&self) -> Vec<String> {
        self.constraints.iter().map(|constraint| fold_whitespace(&constraint.text)).collect()
    }
}
