//! [`load_model`]: from opened weights to a model; [`measure_model`]: what it would take.

use super::config::{Family, ModelConfig};
use super::layers::LayerLoader;
use super::{
    CausalLm, ModelError, QuantizationPlan, QuantizationReport, WeightPlacement, gemma3, gemma4, gpt_oss,
    llama, qwen3, qwen3_5, qwen3_moe,
};
use crate::ops::Backend;
use crate::weights::{Quantization, RecordedHeads, TensorHeads, Weights};

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
/// each tensor, and nothing is read. Matrices would become blocks of `quantization`; the report says which. `file` is for
/// errors.
///
/// # Errors
/// As [`load_model`].
pub fn measure_model(
    config: &ModelConfig,
    heads: &dyn TensorHeads,
    quantization: Option<Quantization>,
    backend: &Backend,
    file: &str,
) -> Result<(WeightPlacement, Option<QuantizationReport>), ModelError> {
    let measure = |heads: &dyn TensorHeads, quantization: Option<&QuantizationPlan>| {
        let model = load(&mut LayerLoader::measuring(backend, config, heads, quantization))?;
        Ok::<_, ModelError>(model.weight_placement())
    };
    let Some(format) = quantization else { return Ok((measure(heads, None)?, None)) };
    // Which tensors there are to decide on, the family's code says too.
    let recorded = RecordedHeads::new(heads);
    measure(&recorded, None)?;
    let tensors = recorded.into_tensors();
    let tensors = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor));
    let plan = QuantizationPlan::of_tensors(file.to_owned(), tensors, config, format)?;
    Ok((measure(heads, Some(&plan))?, Some(plan.report().clone())))
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
    Ok(())
}
