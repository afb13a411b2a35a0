//! Short answers, tokenised together with the prompt they answer.

use super::RequestFailure;
use crate::chat::{Adaptation, RenderedPrompt};
use crate::tokenizer::Tokenizer;

/// A rendered prompt: what of it an option is tokenised with.
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) ids: Vec<u32>,
    /// Where its messages end: prompts that share messages part there, so the cache keeps the windows before these
    /// positions longest.
    pub(super) boundaries: Vec<usize>,
    /// How the messages were adapted to the template.
    pub(super) adaptations: Vec<Adaptation>,
}

impl From<RenderedPrompt> for Prompt {
    fn from(rendered: RenderedPrompt) -> Self {
        let mut boundaries: Vec<usize> =
            rendered.spans.iter().map(|span| span.end).filter(|&end| end > 0).collect();
        boundaries.sort_unstable();
        boundaries.dedup();
        let RenderedPrompt { text, token_ids: ids, adaptations, .. } = rendered;
        Self { text, ids, boundaries, adaptations }
    }
}

/// Tokenises each option with all that stands before it; the common token prefix is the prompt, the rests are the
/// continuations.
///
/// An option's first letters may join the prompt's last ones in one token, so a prompt tokenised alone and an option
/// tokenised alone need not be what the model saw in training.
pub(super) fn tokenise_options(
    tokenizer: &Tokenizer,
    rendered: &Prompt,
    added: &str,
    options: &[String],
) -> Result<(Vec<u32>, Vec<Vec<u32>>), RequestFailure> {
    let Tail { kept, text, literal } = retokenised_tail(tokenizer, rendered)?;
    let mut whole = Vec::with_capacity(options.len());
    for option in options {
        let mut ids = rendered.ids[..kept].to_vec();
        ids.extend(encode(tokenizer, &format!("{text}{added}{option}"), literal)?);
        whole.push(ids);
    }
    let shortest = whole.iter().map(Vec::len).min().unwrap_or(0);
    let mut common = (0..shortest).take_while(|&at| whole.iter().all(|ids| ids[at] == whole[0][at])).count();
    // Where one option begins another its rest would be empty: the fork moves one token back, which adds the same
    // log-probability to all.
    common = common.min(shortest.saturating_sub(1));
    if common == 0 {
        return Err(prompt_failure("the options share no token with a prompt"));
    }
    let prompt = whole[0][..common].to_vec();
    Ok((prompt, whole.iter().map(|ids| ids[common..].to_vec()).collect()))
}

/// The end of a prompt, which is tokenised again with each option.
struct Tail {
    /// How many of the prompt's tokens stay as they are.
    kept: usize,
    /// The text of the others.
    text: String,
    /// How many bytes of the text hold no special token, even where they spell one.
    literal: usize,
}

/// Text is split at special tokens before anything else, so what stands before the last of them cannot change. What
/// stands after it and still spells one is content, which the rendering tokenised as text.
fn retokenised_tail(tokenizer: &Tokenizer, rendered: &Prompt) -> Result<Tail, RequestFailure> {
    let kept = rendered.ids.iter().rposition(|&id| tokenizer.is_special(id)).map_or(0, |at| at + 1);
    let text = tokenizer.decode(&rendered.ids[kept..]);
    let literal = text.len();
    if encode(tokenizer, &text, literal)? == rendered.ids[kept..] {
        return Ok(Tail { kept, text, literal });
    }
    // Some tokenizers treat the beginning of a text apart; there the whole text is tokenised again, BOS left in front.
    let whole = encode(tokenizer, &rendered.text, 0)?;
    if rendered.ids.ends_with(&whole) {
        let kept = rendered.ids.len() - whole.len();
        return Ok(Tail { kept, text: rendered.text.clone(), literal: 0 });
    }
    Err(prompt_failure(
        "the prompt's tokens are not those of its text, so no option can be tokenised with it",
    ))
}

/// Encodes; special tokens are not recognised in the first `literal` bytes.
fn encode(tokenizer: &Tokenizer, text: &str, literal: usize) -> Result<Vec<u32>, RequestFailure> {
    let encoded = tokenizer.encode_rendered(text, std::slice::from_ref(&(0..literal)));
    encoded.map(|encoded| encoded.ids).map_err(prompt_failure)
}

pub(super) fn prompt_failure(cause: impl std::fmt::Display) -> RequestFailure {
    RequestFailure::Prompt { message: cause.to_string() }
}
