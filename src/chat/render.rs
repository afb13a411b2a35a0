//! Rendering a conversation with a template, adapted where the template would lose or refuse a message.
use std::ops::Range;

use serde_json::{Value, json};

use super::{
    Adaptation, ChatError, RenderOptions, RenderedPrompt, adapt,
    date::Date,
    environment::{RenderFailure, Template},
    harmony,
    locate::{Found, Marker, Marks, locate},
    turn::Turn,
};
use crate::tokenizer::Tokenizer;

/// What turns a conversation into text.
#[derive(Clone, Copy)]
pub(super) enum Format<'a> {
    /// The model's own template.
    Jinja(&'a Template),
    /// gpt-oss's messages.
    Harmony,
}

/// A format with what its renderings share.
pub(super) struct Renderer<'a> {
    pub format: Format<'a>,
    pub options: &'a RenderOptions,
    pub date: Date,
    pub bos_text: &'a str,
    pub eos_text: &'a str,
}

/// A rendering in which every message was found.
pub(super) struct Rendering {
    pub text: String,
    /// Each stretch of content with its message.
    pub found: Found,
    pub adaptations: Vec<Adaptation>,
}

impl Renderer<'_> {
    /// Renders with the least invasive adaptation that keeps every message.
    pub fn render(&self, turns: &[Turn]) -> Result<Rendering, ChatError> {
        let mut worst: Option<(usize, ChatError)> = None;
        for (adapted, adaptations) in adapt::candidates(turns) {
            let (index, error) = match self.attempt(&adapted) {
                Ok((text, found)) => {
                    return Ok(Rendering { text, found, adaptations });
                }
                Err(
                    failure @ (ChatError::OutOfFuel { .. }
                    | ChatError::Syntax { .. }
                    | ChatError::ReasoningEffort { .. }),
                ) => {
                    return Err(failure);
                }
                Err(error) => (message_of(&error), error),
            };
            // Of all refusals, the one farthest into the conversation is what no adaptation could get past.
            if worst.as_ref().is_none_or(|(farthest, _)| index > *farthest) {
                worst = Some((index, error));
            }
        }
        Err(worst.map_or(ChatError::Empty, |(_, error)| error))
    }

    fn attempt(&self, turns: &[Turn]) -> Result<(String, Found), ChatError> {
        let text = self.text(turns, &mut str::to_owned).map_err(|failure| match failure {
            RenderFailure::Refused(refusal) => self.refused(turns, refusal),
            RenderFailure::Other(error) => error,
        })?;
        let mut marker = Marker::default();
        let marked = self.text(turns, &mut |text| marker.mark(text)).ok();
        let count = turns.iter().map(|turn| turn.pieces.len() + turn.calls.len()).sum();
        let marks = marked.and_then(|marked| Marks::read(&text, &marked, count));
        match locate(turns, &text, marks.as_ref()) {
            Ok(found) => Ok((text, found)),
            Err(missing) => {
                Err(ChatError::Dropped { index: missing.message, role: missing.role, what: missing.what })
            }
        }
    }

    /// The rendered text; contents and call names pass through `mark`.
    pub fn text(
        &self,
        turns: &[Turn],
        mark: &mut dyn FnMut(&str) -> String,
    ) -> Result<String, RenderFailure> {
        let template = match self.format {
            Format::Jinja(template) => template,
            Format::Harmony => return harmony::render(turns, self.options, mark),
        };
        let messages: Vec<Value> = turns.iter().map(|turn| turn.to_value(mark)).collect();
        let mut context = json!({
            "messages": messages,
            "tools": null,
            "documents": null,
            "add_generation_prompt": self.options.add_generation_prompt,
            "bos_token": self.bos_text,
            "eos_token": self.eos_text,
        });
        if let Some(thinking) = self.options.thinking {
            context["enable_thinking"] = thinking.into();
        }
        if let Some(effort) = &self.options.reasoning_effort {
            context["reasoning_effort"] = effort.clone().into();
        }
        template.render(context, turns.len(), self.date)
    }

    /// Finds the turn with which the template begins to refuse, by halving: a template does not say.
    fn refused(&self, turns: &[Turn], refusal: String) -> ChatError {
        let is_refused = |length: usize| {
            matches!(self.text(&turns[..length], &mut str::to_owned), Err(RenderFailure::Refused(_)))
        };
        let (mut accepted, mut refused) = (0, turns.len());
        while refused - accepted > 1 {
            let middle = accepted.midpoint(refused);
            if is_refused(middle) { refused = middle } else { accepted = middle }
        }
        let turn = &turns[refused - 1];
        let index = turn.pieces.last().map_or(0, |piece| piece.message);
        ChatError::Refused { index, role: turn.role.to_string(), refusal }
    }
}

fn message_of(error: &ChatError) -> usize {
    match error {
        ChatError::Refused { index, .. } | ChatError::Dropped { index, .. } => *index,
        _ => 0,
    }
}

/// Tokenises a rendering whole, with its contents as literal text, and finds the tokens of each message.
pub(super) fn tokenize(
    tokenizer: &Tokenizer,
    rendering: Rendering,
    messages: usize,
) -> Result<RenderedPrompt, ChatError> {
    let Rendering { text, found, adaptations } = rendering;
    let literal: Vec<Range<usize>> = found.iter().map(|(_, range)| range.clone()).collect();
    let encoded = tokenizer.encode_rendered(&text, &literal)?;
    let mut token_ids = encoded.ids;
    // A template may write the BOS itself; a second one would be a token the model never saw there.
    let bos = tokenizer.bos_id().filter(|bos| token_ids.first() != Some(bos));
    if let Some(bos) = bos {
        token_ids.insert(0, bos);
    }
    let shift = usize::from(bos.is_some());
    let mut bytes: Vec<Option<Range<usize>>> = vec![None; messages];
    for (message, range) in found {
        let Some(hull) = bytes.get_mut(message) else {
            continue;
        };
        *hull = Some(match hull.take() {
            Some(hull) if range.is_empty() => hull,
            Some(hull) if !hull.is_empty() => hull.start.min(range.start)..hull.end.max(range.end),
            _ => range,
        });
    }
    let spans = bytes.into_iter().map(|range| {
        let range = range.unwrap_or(0..0);
        let start = encoded.offsets.partition_point(|at| at.end <= range.start);
        let end = encoded.offsets.partition_point(|at| at.start < range.end);
        start + shift..end.max(start) + shift
    });
    Ok(RenderedPrompt { text, token_ids, spans: spans.collect(), adaptations })
}
