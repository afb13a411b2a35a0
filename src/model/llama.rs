//! Llama (and SmolLM2): pre-norm blocks with SiLU, no biases.

use super::layers::{Decoder, LayerLoader, PreNormBlock};
use super::{CausalLm, ModelError};

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, |loader, layer| PreNormBlock::load(loader, layer, false))?))
}
