//! [`load_model`]: from opened weights to a model.

use super::config::{Family, ModelConfig};
use super::layers::LayerLoader;
use super::{CausalLm, ModelError, gemma3, gemma4, gpt_oss, llama, qwen3, qwen3_5, qwen3_moe};
use crate::ops::Backend;
use crate::weights::Weights;

/// Loads the model that `weights` hold. `progress(loaded, total)` counts bytes on disk.
///
/// # Errors
/// [`ModelError`] for an unknown architecture, a config that cannot work, or a missing or misshapen tensor.
pub fn load_model(
    weights: &Weights,
    backend: &Backend,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn CausalLm>, ModelError> {
    let config = ModelConfig::from_weights(weights)?;
    let mut loader = LayerLoader::new(backend, &config, weights, progress);
    match config.family {
        Family::Llama => llama::load(&mut loader),
        Family::Qwen3 => qwen3::load(&mut loader),
        Family::Qwen3Moe => qwen3_moe::load(&mut loader),
        Family::Qwen3_5 => qwen3_5::load(&mut loader),
        Family::GptOss => gpt_oss::load(&mut loader),
        Family::Gemma3 => gemma3::load(&mut loader),
        Family::Gemma4 => gemma4::load(&mut loader),
    }
}
