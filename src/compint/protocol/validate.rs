//! What a protocol must be to be used at all: checked when it is read, so that rendering cannot go wrong.

use super::{FORMAT, PromptPart, Protocol, ProtocolError};
use crate::compint::template::Template;

impl Protocol {
    pub(super) fn validate(&self, file: &str) -> Result<(), ProtocolError> {
        let invalid =
            |field: String, problem: String| ProtocolError::Invalid { file: file.to_owned(), field, problem };
        if self.format != FORMAT {
            return Err(invalid("format".into(), format!("is {}; this build reads {FORMAT}", self.format)));
        }
        let needs = |field: String, template: &Template, places: &[&str]| match places
            .iter()
            .find(|place| !template.has_place(place))
        {
            Some(place) => Err(invalid(field, format!("lacks the place {{{place}}}"))),
            None => Ok(()),
        };
        needs("probe".into(), &self.probe, &["probe", "option_a", "option_b"])?;
        needs("judge.user".into(), &self.judge.user, &["constraint", "context"])?;
        for (field, list) in [("judge.context", &self.judge.context), ("transcript", &self.transcript)] {
            needs(format!("{field}.message"), &list.message, &["role", "content"])?;
        }
        for (name, prompt) in &self.extraction {
            needs(
                format!("extraction.{name}.user"),
                &prompt.user,
                &["user_message", "registry", "assistant_message"],
            )?;
            needs(format!("extraction.{name}.registry"), &prompt.registry, &["entries"])?;
            needs(format!("extraction.{name}.assistant_message"), &prompt.assistant_message, &["text"])?;
        }
        for (name, parts) in &self.compaction {
            if !parts.iter().any(PromptPart::carries_history) {
                let problem = "carries the history neither as {transcript} nor as messages".to_owned();
                return Err(invalid(format!("compaction.{name}"), problem));
            }
        }
        self.validate_constraints(&invalid)
    }

    fn validate_constraints(
        &self,
        invalid: &dyn Fn(String, String) -> ProtocolError,
    ) -> Result<(), ProtocolError> {
        if self.constraints.is_empty() {
            return Err(invalid("constraints".into(), "is empty".into()));
        }
        let mut seen = std::collections::HashSet::new();
        for (index, constraint) in self.constraints.iter().enumerate() {
            let field = |name: &str| format!("constraints[{index}].{name}");
            if !seen.insert(constraint.id) {
                return Err(invalid(field("id"), format!("{} occurs twice", constraint.id)));
            }
            for (name, text) in [
                ("type", &constraint.kind),
                ("text", &constraint.text),
                ("probe", &constraint.probe),
                ("compliant", &constraint.compliant),
                ("noncompliant", &constraint.noncompliant),
            ] {
                if text.is_empty() {
                    return Err(invalid(field(name), "is empty".into()));
                }
            }
            if constraint.compliant == constraint.noncompliant {
                return Err(invalid(field("noncompliant"), "equals the compliant behaviour".into()));
            }
        }
        Ok(())
    }
}

impl PromptPart {
    fn carries_history(&self) -> bool {
        match self {
            Self::Message(message) => message.content.has_place("transcript"),
            Self::History(_) => true,
        }
    }
}
