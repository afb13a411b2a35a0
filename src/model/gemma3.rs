//! Gemma 3, text: norms before and after each sub-block, GELU-tanh, scaled embeddings, five sliding layers to one
//! full layer, each kind with its own rotary base.

use super::layers::{Decoder, LayerLoader, SandwichBlock};
use super::{CausalLm, ModelError};

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, SandwichBlock::load)?))
}
