//! [`QuantizationPlan`]: which matrices become blocks of a format when a model is loaded.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::{HeadSource, ModelConfig, ModelError};
use crate::weights::{Quantization, Storage, TensorInfo, WeightDtype, Weights};

/// The last parts of the names of linear layers that carry a model's weight: projections of attention, of feed-forward
/// blocks and experts, of recurrent layers, and of per-layer inputs.
///
/// Others stay as the file has them: routers and what decides on a state's decay are small, and an error there turns into
/// another choice; the projection that all per-layer inputs share is left alone by llama.cpp's quantiser too.
const PROJECTIONS: [&str; 12] = [
    "q_proj",
    "k_proj",
    "v_proj",
    "o_proj",
    "gate_proj",
    "up_proj",
    "down_proj",
    "in_proj_qkv",
    "in_proj_z",
    "out_proj",
    "per_layer_input_gate",
    "per_layer_projection",
];
/// gpt-oss's published experts: matrices in MXFP4, in two tensors of bytes each.
const MXFP4_BLOCKS: &str = "_blocks";

/// Which float matrices of a model's files become blocks of a format.
///
/// Of the embedding: where it serves as the vocabulary projection too, it is one matrix and is quantised as that; where it
/// is only looked up by rows it stays. The projection to the vocabulary gets [`Quantization::Q6K`] where fewer bits are
/// asked for ([`Quantization::Q8_0`] where its width is no multiple of 256): its errors reach the logits as they are.
///
/// # Source
/// Formats of the projection: `llama_tensor_get_type` of llama.cpp b11434 (MIT), read 2026-11.
#[derive(Debug, Clone)]
pub struct QuantizationPlan {
    formats: HashMap<String, Quantization>,
    report: QuantizationReport,
    weight_bytes: u64,
}

/// What a [`QuantizationPlan`] does with a model's matrices; experts of one tensor count one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuantizationReport {
    /// What was asked for.
    pub format: Quantization,
    /// Matrices that become blocks of it.
    pub quantised: usize,
    /// What the vocabulary projection becomes; `None` where it is left as it is.
    pub vocabulary: Option<Quantization>,
    /// Matrices that are blocks in the file already, by type.
    pub already: BTreeMap<&'static str, usize>,
    /// Float matrices left as they are because blocks do not divide their rows, by type and width.
    pub left: BTreeMap<(&'static str, usize), usize>,
}

impl QuantizationPlan {
    /// Decides for all tensors of `weights`, from their headers alone.
    ///
    /// # Errors
    /// [`ModelError::NothingToQuantize`] where not one matrix would become blocks of `format`.
    pub fn new(weights: &Weights, config: &ModelConfig, format: Quantization) -> Result<Self, ModelError> {
        let file = weights.path().display().to_string();
        Self::of_tensors(file, weights.tensors(), config, format)
    }

    /// As [`Self::new`], for tensors that a header describes: canonical name and head. `file` is for errors.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(super) fn of_tensors<'a>(
        file: String,
        tensors: impl Iterator<Item = (&'a str, &'a TensorInfo)> + Clone,
        config: &ModelConfig,
        format: Quantization,
    ) -> Result<Self, ModelError> {
        let has_head = match config.head {
            HeadSource::Own => true,
            HeadSource::Embedding => false,
            HeadSource::WhatThereIs => tensors.clone().any(|(name, _)| name == "lm_head.weight"),
        };
        let vocabulary = if has_head { "lm_head.weight" } else { "model.embed_tokens.weight" };
        let report = QuantizationReport {
            format,
            quantised: 0,
            vocabulary: None,
            already: BTreeMap::new(),
            left: BTreeMap::new(),
        };
        let mut plan = Self { formats: HashMap::new(), report, weight_bytes: 0 };
        for (name, tensor) in tensors {
            let bytes = tensor.range.len() as u64;
            let format = match name == vocabulary {
                true => plan.decide_vocabulary(tensor),
                false if is_projection(name, config.num_layers()) => plan.decide(tensor),
                false => None,
            };
            let Some(format) = format else {
                plan.weight_bytes += bytes;
                continue;
            };
            let elements: u64 = tensor.shape.iter().map(|&size| size as u64).product();
            let blocks = elements / format.dtype().block_elements() as u64;
            plan.weight_bytes += blocks * format.dtype().block_bytes() as u64;
            plan.formats.insert(name.to_owned(), format);
        }
        if plan.report.quantised > 0 {
            return Ok(plan);
        }
        Err(ModelError::NothingToQuantize {
            file,
            report: Box::new(QuantizationReport { vocabulary: None, ..plan.report }),
        })
    }

    fn decide(&mut self, tensor: &TensorInfo) -> Option<Quantization> {
        let format = self.report.format;
        let (count, width) = (matrices(tensor), tensor.shape.last().copied().unwrap_or(0));
        match &tensor.storage {
            Storage::Supported(dtype) if is_float(*dtype) && format.divides(width) => {
                self.report.quantised += count;
                return Some(format);
            }
            Storage::Supported(dtype) if is_float(*dtype) => {
                *self.report.left.entry((dtype.name(), width)).or_default() += count;
            }
            Storage::Supported(dtype) => *self.report.already.entry(dtype.name()).or_default() += count,
            Storage::Unsupported(name) if name == "U8" => {
                *self.report.already.entry(WeightDtype::Mxfp4.name()).or_default() += count;
            }
            // Refused by name when it is loaded.
            Storage::Unsupported(_) => {}
        }
        None
    }

    fn decide_vocabulary(&mut self, tensor: &TensorInfo) -> Option<Quantization> {
        let width = tensor.shape.last().copied().unwrap_or(0);
        let chosen = vocabulary_format(self.report.format, width);
        match &tensor.storage {
            Storage::Supported(dtype) if is_float(*dtype) && chosen.divides(width) => {
                self.report.vocabulary = Some(chosen);
                return Some(chosen);
            }
            Storage::Supported(dtype) if is_float(*dtype) => {
                *self.report.left.entry((dtype.name(), width)).or_default() += 1;
            }
            Storage::Supported(dtype) => *self.report.already.entry(dtype.name()).or_default() += 1,
            Storage::Unsupported(_) => {}
        }
        None
    }

    /// What the tensor of this canonical name becomes; `None` where it stays as it is in the file.
    pub fn format_of(&self, name: &str) -> Option<Quantization> {
        self.formats.get(name).copied()
    }

    /// What is done with the model's matrices.
    pub fn report(&self) -> &QuantizationReport {
        &self.report
    }

    /// Bytes of all text-model tensors once they are quantised.
    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }
}

/// Fewer bits than six are too few for the projection to the vocabulary.
fn vocabulary_format(format: Quantization, width: usize) -> Quantization {
    match format {
        Quantization::Q8_0 => Quantization::Q8_0,
        _ if Quantization::Q6K.divides(width) => Quantization::Q6K,
        _ => Quantization::Q8_0,
    }
}

fn is_float(dtype: WeightDtype) -> bool {
    dtype.block_elements() == 1
}

/// By canonical name, in one of so many layers: files may have more, which are not loaded.
fn is_projection(name: &str, num_layers: usize) -> bool {
    let rest = name.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'));
    if !rest.is_some_and(|(layer, _)| layer.parse().is_ok_and(|layer: usize| layer < num_layers)) {
        return false;
    }
    let stem = name.strip_suffix(".weight").or_else(|| name.strip_suffix(MXFP4_BLOCKS));
    let last = stem.map(|stem| stem.rsplit_once('.').map_or(stem, |(_, last)| last));
    // The published experts of gpt-oss hold gate and up projection in one tensor.
    last.is_some_and(|last| PROJECTIONS.contains(&last) || last == "gate_up_proj")
}

/// Matrices in a tensor: one, or one an expert.
fn matrices(tensor: &TensorInfo) -> usize {
    if tensor.shape.len() > 2 { tensor.shape[0] } else { 1 }
}

impl fmt::Display for QuantizationReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} matrices quantised to {}", self.quantised, self.format)?;
        if let Some(vocabulary) = self.vocabulary {
            write!(formatter, ", the vocabulary projection to {vocabulary}")?;
        }
        for (dtype, count) in &self.already {
            write!(formatter, "; {count} are {dtype} in the file and stay so")?;
        }
        let unit = self.format.dtype().block_elements();
        for ((dtype, width), count) in &self.left {
            let dtype = dtype.to_lowercase();
            write!(formatter, "; {count} matrices left in {dtype}: width {width} is no multiple of {unit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
