//! [`MemoryPlan`]: what a model needs for contexts of a length, before a weight is read.
//!
//! Every number comes from the code that the engine runs by: the family's own loader measures the weights, and the cache's
//! own plan says how many blocks and slots a sequence holds.

mod error;
mod scratch;

use std::path::Path;

pub use error::PlanError;

use super::EngineOptions;
use crate::kv::{KvCacheGroup, KvPlan};
use crate::model::{ModelConfig, WeightPlacement, measure_model};
use crate::ops::{Backend, KvDtype};
use crate::weights::manifest::{ModelManifest, RopeExtension};
use crate::weights::{TensorHeads, Weights};

/// What to plan for.
#[derive(Debug, Clone, Default)]
pub struct PlanRequest {
    /// Tokens of a sequence, prompt and answer together.
    pub context: usize,
    /// Bytes there are; `None`: the plan says what is needed, and not what fits.
    pub memory: Option<u64>,
    /// A documented way to a longer context, by name.
    pub rope_extension: Option<String>,
}

/// Layers that share a block table.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct GroupPlan {
    /// Tokens that its layers see; `None`: all.
    pub window: Option<u32>,
    /// Layers.
    pub layers: usize,
    /// Key and value heads of each.
    pub kv_heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Bytes a token within the window.
    pub bytes_per_token: usize,
    /// Most blocks that a sequence holds.
    pub blocks: usize,
    /// Bytes of these.
    pub bytes: usize,
}

/// What the recurrent layers keep.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct StatePlan {
    /// Recurrent layers.
    pub layers: usize,
    /// Bytes of a slot, which holds all of them.
    pub slot_bytes: usize,
    /// Most slots that a sequence holds.
    pub slots: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// Tokens between snapshots.
    pub snapshot_tokens: usize,
    /// Snapshots that a sequence leaves behind on its way where there is room; they give way when there is none.
    pub snapshots: usize,
    /// Bytes of these; no part of what a sequence needs.
    pub snapshot_bytes: usize,
}

/// What fits the memory there is.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Fit {
    /// Bytes there are.
    pub memory: u64,
    /// Sequences of the planned length that fit at once; 0: none does.
    pub sequences: usize,
    /// Tokens of the longest single sequence that fits, the model's limit at most; 0: not even a short one.
    pub longest_context: usize,
}

/// What a model needs in memory, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemoryPlan {
    /// The model's name, or its path.
    pub model: String,
    /// Tokens of a sequence.
    pub context: usize,
    /// Tokens that the model takes, by the rope extension where one was named.
    pub context_limit: usize,
    /// The rope extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rope_extension: Option<RopeExtension>,
    /// Element type of cached keys and values.
    pub kv_dtype: KvDtype,
    /// Tokens a block.
    pub block_size: usize,
    /// Most tokens one step computes.
    pub chunk: usize,
    /// Where the weights lie.
    pub weights: WeightPlacement,
    /// Which of them are quantised at load, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<String>,
    /// Bytes of a block of any group.
    pub block_bytes: usize,
    /// Keys and values.
    pub groups: Vec<GroupPlan>,
    /// Recurrent layers, where there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<StatePlan>,
    /// What one sequence needs: its blocks and slots.
    pub sequence: usize,
    /// What a step works in: an upper estimate.
    pub scratch: usize,
    /// Weights in memory, scratch and one sequence.
    pub total: usize,
    /// What fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<Fit>,
}

/// A model by its config and its tensors' heads.
struct Planned<'a> {
    name: String,
    config: ModelConfig,
    heads: &'a dyn TensorHeads,
    extensions: &'a [RopeExtension],
}

impl MemoryPlan {
    /// Plans from a manifest alone.
    ///
    /// # Errors
    /// [`PlanError`], whatever of the model is not known or of the request cannot be.
    pub fn of_manifest(
        manifest: &ModelManifest,
        options: &EngineOptions,
        request: &PlanRequest,
    ) -> Result<Self, PlanError> {
        let name = manifest.name.clone();
        if manifest.is_encoder() {
            return Err(PlanError::Encoder { model: name, family: manifest.family.clone() });
        }
        let config = ModelConfig::from_manifest(manifest)?;
        let no_weights = || PlanError::NoWeights { model: manifest.name.clone() };
        let tensors = manifest.published_tensors().ok_or_else(no_weights)?;
        Planned { name, config, heads: &tensors, extensions: &manifest.rope_extensions }
            .plan(options, request)
    }

    /// Plans from the headers of a checkpoint: a GGUF file or an HF folder. `extensions` are those that a manifest
    /// documents.
    ///
    /// # Errors
    /// As [`Self::of_manifest`].
    pub fn of_files(
        path: &Path,
        extensions: &[RopeExtension],
        options: &EngineOptions,
        request: &PlanRequest,
    ) -> Result<Self, PlanError> {
        let weights = Weights::open(path)?;
        let config = ModelConfig::from_weights(&weights)?;
        let name = path.display().to_string();
        Planned { name, config, heads: &weights, extensions }.plan(options, request)
    }
}

impl Planned<'_> {
    fn plan(self, options: &EngineOptions, request: &PlanRequest) -> Result<MemoryPlan, PlanError> {
        options.check()?;
        let rope_extension = self.extension(request)?;
        let extended = rope_extension.and_then(|extension| usize::try_from(extension.context_length).ok());
        let context_limit = extended.unwrap_or(self.config.context_length);
        if request.context > context_limit {
            return Err(PlanError::ContextPastLimit {
                model: self.name.clone(),
                asked: request.context,
                limit: context_limit,
                extensions: self.offers(context_limit),
            });
        }
        let backend = Backend::cpu(options.threads)?;
        let (weights, quantization) =
            measure_model(&self.config, self.heads, options.quantization, &backend, &self.name)?;
        let plan = KvPlan::new(&self.config.layer_kv(), options.block_size, options.kv_dtype)?;
        // A step never computes more than the context.
        let rows = options.max_batch_tokens.min(request.context);
        let scratch_of = |tokens, rows| scratch::scratch_bytes(&self.config, tokens, rows, backend.threads());
        let scratch = scratch_of(request.context, rows);
        let sequence = sequence_bytes(&plan, options, request.context);
        let fixed = weights.in_memory().saturating_add(scratch);
        Ok(MemoryPlan {
            model: self.name.clone(),
            context: request.context,
            context_limit,
            rope_extension: rope_extension.cloned(),
            kv_dtype: options.kv_dtype,
            block_size: plan.block_size,
            chunk: options.max_batch_tokens,
            weights,
            quantization: quantization.map(|report| report.to_string()),
            block_bytes: plan.page_bytes,
            groups: plan
                .groups
                .iter()
                .map(|group| group_plan(&plan, group, options, request.context))
                .collect(),
            states: state_plan(&plan, options, request.context),
            sequence,
            scratch,
            total: fixed.saturating_add(sequence),
            fit: request.memory.map(|memory| {
                let free = usize::try_from(memory).unwrap_or(usize::MAX).checked_sub(fixed);
                let needed = |tokens: usize| {
                    let scratch = scratch_of(tokens, options.max_batch_tokens.min(tokens));
                    let sequence = sequence_bytes(&plan, options, tokens);
                    weights.in_memory().saturating_add(scratch).saturating_add(sequence)
                };
                Fit {
                    memory,
                    sequences: free.map_or(0, |free| free / sequence.max(1)),
                    longest_context: longest_within(memory, context_limit, needed),
                }
            }),
        })
    }

    fn extension(&self, request: &PlanRequest) -> Result<Option<&RopeExtension>, PlanError> {
        let Some(name) = &request.rope_extension else { return Ok(None) };
        let found = self.extensions.iter().find(|extension| extension.name == *name);
        let unknown = || PlanError::UnknownRopeExtension {
            model: self.name.clone(),
            name: name.clone(),
            extensions: self.offers(0),
        };
        found.map(Some).ok_or_else(unknown)
    }

    /// Extensions to more than `limit` tokens.
    fn offers(&self, limit: usize) -> Vec<(String, u64)> {
        let longer = self.extensions.iter().filter(|extension| extension.context_length > limit as u64);
        longer.map(|extension| (extension.name.clone(), extension.context_length)).collect()
    }
}

/// Most bytes of blocks and slots that a sequence of `tokens` holds.
fn sequence_bytes(plan: &KvPlan, options: &EngineOptions, tokens: usize) -> usize {
    let slot_bytes = plan.states.map_or(0, |states| states.slot_bytes());
    let blocks = plan.blocks_held(tokens, options.max_batch_tokens).saturating_mul(plan.page_bytes);
    blocks.saturating_add(plan.slots_held() * slot_bytes)
}

fn group_plan(plan: &KvPlan, group: &KvCacheGroup, options: &EngineOptions, tokens: usize) -> GroupPlan {
    let blocks = group.blocks_held(tokens, options.max_batch_tokens);
    GroupPlan {
        window: group.window,
        layers: group.layers.len(),
        kv_heads: group.layout.kv_heads,
        head_dim: group.layout.head_dim,
        bytes_per_token: plan.page_bytes / plan.block_size,
        blocks,
        bytes: blocks.saturating_mul(plan.page_bytes),
    }
}

fn state_plan(plan: &KvPlan, options: &EngineOptions, tokens: usize) -> Option<StatePlan> {
    let layout = plan.states?;
    let (slots, slot_bytes) = (plan.slots_held(), layout.slot_bytes());
    let snapshot_tokens = plan.snapshot_interval(options.snapshot_tokens);
    let snapshots = tokens / snapshot_tokens;
    Some(StatePlan {
        layers: layout.layers,
        slot_bytes,
        slots,
        bytes: slots * slot_bytes,
        snapshot_tokens,
        snapshots,
        snapshot_bytes: snapshots * slot_bytes,
    })
}

/// The greatest number of tokens, `limit` at most, that needs no more than `memory`. Bytes grow with tokens, so that the lengths
/// which fit are a prefix of all.
fn longest_within(memory: u64, limit: usize, needed: impl Fn(usize) -> usize) -> usize {
    let (mut longest, mut too_long) = (0, limit + 1);
    while too_long - longest > 1 {
        let middle = longest + (too_long - longest) / 2;
        match needed(middle) as u64 <= memory {
            true => longest = middle,
            false => too_long = middle,
        }
    }
    longest
}

#[cfg(test)]
mod tests;
