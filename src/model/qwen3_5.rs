//! Qwen3.5, dense, text: three layers of Gated DeltaNet to one of gated full attention, whose heads rotate in part; norms
//! centred on zero.

use super::layers::{Decoder, LayerLoader, PreNormBlock};
use super::{CausalLm, ModelError};

pub(super) fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    Ok(Box::new(Decoder::load(loader, |loader, layer| PreNormBlock::load(loader, layer, true))?))
}
