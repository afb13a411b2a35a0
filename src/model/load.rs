//! [`load_model`]: from opened weights to a model; [`measure_model`]: what it would take.

use super::config::{Family, ModelConfig};
use super::layers::LayerLoader;
use super::{
    CausalLm, ModelError, QuantizationPlan, WeightPlacement, gemma3, gemma4, gpt_oss, llama, qwen3, qwen3_5,
    qwen3_moe,
};
use crate::ops::{Backend, RopeLayout};
use crate::weights::{TensorHeads, Weights};

/// Loads the model that `weights` hold, of which matrices become blocks as `quantization` says. `progress(loaded, total)`
/// counts bytes on disk.
///
/// # Errors
/// [`ModelError`] for an unknown architecture, a config that cannot work, or a missing or misshapen tensor.
pub fn load_model(
    weights: &Weights,
    backend: &Backend,
    quantization: Option<&QuantizationPlan>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Box<dyn CausalLm>, ModelError> {
    let config = ModelConfig::from_weights(weights)?;
    load(&mut LayerLoader::new(backend, &config, weights, quantization, progress))
}

/// Where the weights of a model would lie, from its config and its tensors' heads alone: the family's own code asks for
/// each tensor, and nothing is read.
///
/// # Errors
/// As [`load_model`].
pub fn measure_model(
    config: &ModelConfig,
    heads: &dyn TensorHeads,
    backend: &Backend,
) -> Result<WeightPlacement, ModelError> {
    Ok(load(&mut LayerLoader::measuring(backend, config, heads))?.weight_placement())
}

fn load(loader: &mut LayerLoader<'_>) -> Result<Box<dyn CausalLm>, ModelError> {
    match loader.config.family {
        Family::Llama => llama::load(loader),
        Family::Qwen3 => qwen3::load(loader),
        Family::Qwen3Moe => qwen3_moe::load(loader),
        Family::Qwen3_5 => qwen3_5::load(loader),
        Family::GptOss => gpt_oss::load(loader),
        Family::Gemma3 => gemma3::load(loader),
        Family::Gemma4 => gemma4::load(loader),
    }
}

/// Refuses a model with layers that the backend's device has no kernels for.
///
/// # Errors
/// [`ModelError::Op`] names the first.
pub fn check_device(backend: &Backend, config: &ModelConfig) -> Result<(), ModelError> {
    if config.experts.is_some() {
        backend.require_cpu("a mixture of experts")?;
    }
    if config.recurrent.is_some() {
        backend.require_cpu("a layer of Gated DeltaNet")?;
    }
    if config.rope_layout == RopeLayout::Interleaved {
        backend.require_cpu("rotation of neighbouring elements (GGUF files of the llama architecture)")?;
    }
    Ok(())
}
