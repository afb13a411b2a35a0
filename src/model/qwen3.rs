//! Qwen3, dense: Llama's block with RMS norms over each query and key head before the rotation.

use super::layers::{Decoder, LayerLoader, PreNormBlock};
use super::{CausalLm, ModelError};

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, |loader, layer| PreNormBlock::load(loader, layer, true))?))
}
