//! [`ModelIdentity`]: what a result depends on, without loading the model.

use std::path::Path;

use sha2::{Digest, Sha256};

use super::load::{TextSide, load_text};
use super::{EngineError, EngineOptions};
use crate::chat::ChatTemplate;
use crate::kv::KvPlan;
use crate::model::{ModelConfig, QuantizationPlan};
use crate::ops::Backend;
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;

/// A model's name, texts and shapes, read without its weights' values.
pub struct ModelIdentity {
    /// As [`super::Engine::model_digest`].
    pub digest: String,
    /// As [`super::Engine::arithmetic`].
    pub arithmetic: String,
    /// As [`super::Engine::is_batch_invariant`].
    pub is_batch_invariant: bool,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// Its chat template.
    pub template: ChatTemplate,
    /// Its shapes.
    pub config: ModelConfig,
    /// Bytes of its tensors: on disk, or once they are quantised.
    pub weight_bytes: u64,
}

impl ModelIdentity {
    /// Reads the model at `path`; its weight files are hashed, which takes as long as reading them.
    ///
    /// # Errors
    /// As [`super::Engine::load`], what can be said of a quantisation without the weights' values included; a model without
    /// a tokenizer is an error here.
    pub fn read(path: &Path, options: &EngineOptions) -> Result<Self, EngineError> {
        let backend = Backend::open(options.device, options.threads)?;
        let weights = Weights::open(path)?;
        let text = load_text(&weights)?;
        let config = ModelConfig::from_weights(&weights)?;
        let plan = quantization_plan(&weights, &config, options)?;
        Ok(Self {
            digest: digest(&weight_digest(&weights, options)?, Some(&text)),
            arithmetic: arithmetic(&backend, options),
            is_batch_invariant: backend.is_batch_invariant(),
            config,
            weight_bytes: plan.map_or(weights.total_bytes(), |plan| plan.weight_bytes()),
            tokenizer: text.tokenizer,
            template: text.template,
        })
    }

    /// KV bytes of a token within every window, with these options.
    ///
    /// # Errors
    /// [`EngineError::Kv`] for a block size that cannot be.
    pub fn kv_bytes_per_token(&self, options: &EngineOptions) -> Result<usize, EngineError> {
        let plan = KvPlan::new(&self.config.layer_kv(), options.block_size, options.kv_dtype)?;
        Ok(plan.bytes_per_token().1)
    }
}

/// What is quantised, where the options ask for it.
pub(super) fn quantization_plan(
    weights: &Weights,
    config: &ModelConfig,
    options: &EngineOptions,
) -> Result<Option<QuantizationPlan>, EngineError> {
    Ok(options.quantization.map(|format| QuantizationPlan::new(weights, config, format)).transpose()?)
}

/// The digest of the weights as they are computed with: those of the files, or what they are quantised to at load, which are
/// other weights.
pub(super) fn weight_digest(weights: &Weights, options: &EngineOptions) -> Result<String, EngineError> {
    let in_files = weights.digest()?;
    let Some(format) = options.quantization else { return Ok(in_files) };
    Ok(crate::weights::hex(&Sha256::digest(format!("{in_files} quantize={format}"))))
}

/// The digest of a model whose weights have this one.
pub(super) fn digest(weights: &str, text: Option<&TextSide>) -> String {
    let mut hasher = Sha256::new();
    hasher.update(weights);
    if let Some(text) = text {
        hasher.update(text.tokenizer.digest());
        hasher.update(text.template.digest());
    }
    crate::weights::hex(&hasher.finalize())
}

pub(super) fn arithmetic(backend: &Backend, options: &EngineOptions) -> String {
    format!("{} kv={} longwick={}", backend.arithmetic(), options.kv_dtype, env!("CARGO_PKG_VERSION"))
}
