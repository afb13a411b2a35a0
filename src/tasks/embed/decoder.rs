//! Embedding by a decoder's last token, through the engine.

use std::collections::BTreeMap;

use super::{EmbedError, Embedding, normalised};
use crate::engine::{Engine, EngineError, Request, RequestKind, RequestOutput, SequenceId};
use crate::tokenizer::{SpecialTokens, TokenizerError};
use crate::weights::{ModelMetadata, Weights};

/// Texts under way at once: enough to fill the engine's batch.
const IN_FLIGHT: usize = 64;

/// The end token that a GGUF file wants behind a text. A tokenizer.json has it in its post-processor.
pub(super) fn end_token(weights: &Weights, engine: &Engine) -> Result<Option<u32>, EngineError> {
    let ModelMetadata::Gguf(metadata) = weights.metadata() else { return Ok(None) };
    if metadata.bool("tokenizer.ggml.add_eos_token")? != Some(true) {
        return Ok(None);
    }
    let tokenizer = engine.tokenizer()?;
    let id = tokenizer.eos_text().and_then(|text| tokenizer.token_id(text));
    let missing = TokenizerError::MissingField { field: "tokenizer.ggml.eos_token_id" };
    id.map(Some).ok_or_else(|| missing.into())
}

pub(super) fn embed(
    engine: &mut Engine,
    end: Option<u32>,
    max_tokens: usize,
    texts: &[String],
    on_done: &mut dyn FnMut(usize, Embedding) -> Result<(), EmbedError>,
) -> Result<(), EmbedError> {
    let mut waiting: BTreeMap<SequenceId, (usize, usize, bool)> = BTreeMap::new();
    let mut early: BTreeMap<usize, Embedding> = BTreeMap::new();
    let (mut submitted, mut delivered) = (0, 0);
    while delivered < texts.len() {
        while submitted < texts.len() && waiting.len() < IN_FLIGHT {
            let limit = max_tokens - usize::from(end.is_some());
            let whole = engine.tokenizer()?.encode_whole(&texts[submitted], SpecialTokens::AsText, limit);
            let whole = whole.map_err(EngineError::from)?;
            let prompt: Vec<u32> = whole.ids.into_iter().chain(end).collect();
            if prompt.is_empty() {
                return Err(EmbedError::Empty { index: submitted });
            }
            let tokens = prompt.len();
            let id = engine.submit(Request::new(prompt, RequestKind::Hidden))?;
            waiting.insert(id, (submitted, tokens, whole.is_cut));
            submitted += 1;
        }
        for completion in engine.step()? {
            let Some((index, tokens, is_cut)) = waiting.remove(&completion.id) else { continue };
            let RequestOutput::Hidden(state) = completion.output else {
                let reason = format!("a hidden state was asked for, and {:?} came", completion.output);
                return Err(EngineError::RequestFailed(reason).into());
            };
            early.insert(index, Embedding { tokens, is_cut, embedding: normalised(&state) });
        }
        while let Some(embedding) = early.remove(&delivered) {
            on_done(delivered, embedding)?;
            delivered += 1;
        }
    }
    Ok(())
}
