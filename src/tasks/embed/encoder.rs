//! Embedding by an encoder.

use candle_core::Tensor;

use super::{EmbedError, Embedding, Pooling, normalised};
use crate::engine::{EngineError, TextEncoder};
use crate::tokenizer::{SpecialTokens, WholeText};

/// Tokens of one pass. A result does not depend on it: each text sees itself alone.
const BATCH_TOKENS: usize = 2048;

pub(super) fn embed(
    model: &TextEncoder,
    pooling: Pooling,
    max_tokens: usize,
    texts: &[String],
    on_done: &mut dyn FnMut(usize, Embedding) -> Result<(), EmbedError>,
) -> Result<(), EmbedError> {
    let mut batch: Vec<WholeText> = Vec::new();
    let mut tokens = 0;
    for (index, text) in texts.iter().enumerate() {
        let whole = model.tokenizer.encode_whole(text, SpecialTokens::AsText, max_tokens);
        let whole = whole.map_err(EngineError::from)?;
        if whole.ids.is_empty() {
            return Err(EmbedError::Empty { index });
        }
        if tokens + whole.ids.len() > BATCH_TOKENS {
            run(model, pooling, index - batch.len(), &batch, on_done)?;
            batch.clear();
            tokens = 0;
        }
        tokens += whole.ids.len();
        batch.push(whole);
    }
    run(model, pooling, texts.len() - batch.len(), &batch, on_done)
}

fn run(
    model: &TextEncoder,
    pooling: Pooling,
    first: usize,
    batch: &[WholeText],
    on_done: &mut dyn FnMut(usize, Embedding) -> Result<(), EmbedError>,
) -> Result<(), EmbedError> {
    if batch.is_empty() {
        return Ok(());
    }
    let sequences: Vec<&[u32]> = batch.iter().map(|whole| whole.ids.as_slice()).collect();
    let hidden = model.encoder.forward(&sequences).map_err(EngineError::from)?;
    let mut start = 0;
    for (offset, whole) in batch.iter().enumerate() {
        let tokens = whole.ids.len();
        let embedding = pooled(&hidden, start, tokens, pooling).map_err(EngineError::from)?;
        start += tokens;
        on_done(first + offset, Embedding { tokens, is_cut: whole.is_cut, embedding })?;
    }
    Ok(())
}

fn pooled(hidden: &Tensor, start: usize, tokens: usize, pooling: Pooling) -> candle_core::Result<Vec<f32>> {
    let row = |row: usize| hidden.get(row)?.to_vec1::<f32>();
    let vector = match pooling {
        Pooling::Cls => row(start)?,
        Pooling::Last => row(start + tokens - 1)?,
        Pooling::Mean => {
            let rows = hidden.narrow(0, start, tokens)?.to_vec2::<f32>()?;
            let mut sums = vec![0.0_f64; rows[0].len()];
            for row in &rows {
                sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += f64::from(x));
            }
            sums.into_iter().map(|sum| (sum / tokens as f64) as f32).collect()
        }
    };
    Ok(normalised(&vector))
}
