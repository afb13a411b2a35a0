//! [`LayerLoader`]: tensors by name into packed weights.

mod placement;
mod stacked;

pub use placement::WeightPlacement;

use super::Linear;
use crate::model::{ModelConfig, ModelError, QuantizationPlan};
use crate::ops::{self, Backend, PackedMatrix};
use crate::weights::{MappedMatrix, Quantization, TensorHeads, TensorView, WeightDtype, Weights};
use candle_core::Tensor;
use std::ops::Range;

/// Where tensors come from.
#[derive(Clone, Copy)]
enum Source<'a> {
    /// Opened files: tensors are packed.
    Files(&'a Weights),
    /// Heads alone: tensors are measured. What is then loaded has the sizes of a model and none of its elements.
    Heads(&'a dyn TensorHeads),
}

/// Reads tensors of opened weights, checks their shapes, packs them for the backend, and reports progress. It keeps account
/// of where the weights lie, and can do that alone.
pub struct LayerLoader<'a> {
    /// Where operations run.
    pub backend: &'a Backend,
    /// The model's shapes.
    pub config: &'a ModelConfig,
    source: Source<'a>,
    quantization: Option<&'a QuantizationPlan>,
    progress: Progress<'a>,
    placement: WeightPlacement,
}

/// Bytes on disk that were loaded, and who is told of them.
struct Progress<'a> {
    report: Option<&'a mut dyn FnMut(u64, u64)>,
    loaded_bytes: u64,
    total_bytes: u64,
}

impl Progress<'_> {
    fn advance(&mut self, bytes: usize) {
        self.loaded_bytes += bytes as u64;
        if let Some(report) = &mut self.report {
            report(self.loaded_bytes, self.total_bytes.max(self.loaded_bytes));
        }
    }
}

impl<'a> LayerLoader<'a> {
    /// Matrices become blocks as `quantization` says. `progress(loaded, total)` is called after each tensor, in bytes on disk.
    pub fn new(
        backend: &'a Backend,
        config: &'a ModelConfig,
        weights: &'a Weights,
        quantization: Option<&'a QuantizationPlan>,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        let progress =
            Progress { report: Some(progress), loaded_bytes: 0, total_bytes: weights.total_bytes() };
        let placement = WeightPlacement::default();
        Self { backend, config, source: Source::Files(weights), quantization, progress, placement }
    }

    /// A loader that measures: what it loads has the sizes that `heads` and `quantization` say, and no elements. Operations
    /// must not read it.
    pub(in crate::model) fn measuring(
        backend: &'a Backend,
        config: &'a ModelConfig,
        heads: &'a dyn TensorHeads,
        quantization: Option<&'a QuantizationPlan>,
    ) -> Self {
        let progress = Progress { report: None, loaded_bytes: 0, total_bytes: 0 };
        Self {
            backend,
            config,
            source: Source::Heads(heads),
            quantization,
            progress,
            placement: WeightPlacement::default(),
        }
    }

    /// Where all that was loaded so far lies.
    pub fn placement(&self) -> WeightPlacement {
        self.placement
    }

    /// Packs a matrix of the tensor of this canonical name, quantised where that is planned.
    fn pack(&mut self, name: &str, matrix: &TensorView<'_>) -> Result<PackedMatrix, ModelError> {
        let packed = match self.quantization.and_then(|plan| plan.format_of(name)) {
            None => PackedMatrix::pack(self.backend, matrix)?,
            Some(format) => {
                let blocks = ops::quantize(self.backend, matrix, format)?;
                let quantised = TensorView { dtype: format.dtype(), data: &blocks, ..matrix.clone() };
                PackedMatrix::pack(self.backend, &quantised)?
            }
        };
        self.placement.add_packed(&packed);
        Ok(packed)
    }

    /// Measures what [`Self::pack`] would give.
    fn measure(
        &mut self,
        name: &str,
        dtype: WeightDtype,
        shape: [usize; 2],
    ) -> Result<PackedMatrix, ModelError> {
        let format = self.quantization.and_then(|plan| plan.format_of(name));
        let dtype = format.map_or(dtype, Quantization::dtype);
        let measured = PackedMatrix::measured(dtype, shape[0], shape[1])?;
        self.placement.add_packed(&measured);
        Ok(measured)
    }

    /// The matrix `[out_features, in_features]` of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn matrix(
        &mut self,
        name: &str,
        out_features: usize,
        in_features: usize,
    ) -> Result<PackedMatrix, ModelError> {
        let shape = [out_features, in_features];
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => return self.measure(name, heads.expect(name, &shape)?, shape),
        };
        let tensor = weights.require(name, &shape)?;
        let packed = self.pack(name, &tensor)?;
        self.progress.advance(tensor.data.len());
        Ok(packed)
    }

    /// `rows` of the matrix `[out_features, in_features]` of this name, as a matrix of their own.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape; [`ModelError::Op`] for rows that it has not.
    pub fn matrix_rows(
        &mut self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<PackedMatrix, ModelError> {
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                return self.measure(name, heads.expect(name, &shape)?, [rows.len(), shape[1]]);
            }
        };
        let tensor = weights.require(name, &shape)?;
        let row_bytes = tensor.data.len() / shape[0].max(1);
        let data = tensor.data.get(rows.start * row_bytes..rows.end * row_bytes).unwrap_or_default();
        let tensor = TensorView { shape: vec![rows.len(), shape[1]], data, ..tensor };
        let packed = self.pack(name, &tensor)?;
        self.progress.advance(tensor.data.len());
        Ok(packed)
    }

    /// The matrix of this shape and name, which stays in its file.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn mapped_matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<MappedMatrix, ModelError> {
        let matrix = match self.source {
            Source::Files(weights) => weights.mapped_matrix(name, shape)?,
            Source::Heads(heads) => MappedMatrix::measured(name, heads.expect(name, &shape)?, shape),
        };
        self.placement.add_mapped(&matrix);
        self.progress.advance(matrix.file_bytes());
        Ok(matrix)
    }

    /// The vector of one element of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn scalar(&mut self, name: &str) -> Result<f32, ModelError> {
        Ok(self.vector(name, 1, 0.0)?.reshape(())?.to_scalar()?)
    }

    /// `<prefix>.weight` of shape `[out_features, in_features]` and, where `is_biased`, `<prefix>.bias`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape.
    pub fn linear(
        &mut self,
        prefix: &str,
        out_features: usize,
        in_features: usize,
        is_biased: bool,
    ) -> Result<Linear, ModelError> {
        let weight = self.matrix(&format!("{prefix}.weight"), out_features, in_features)?;
        let bias = match is_biased {
            true => Some(self.vector(&format!("{prefix}.bias"), out_features, 0.0)?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    /// The depthwise convolution `[channels, 1, kernel]` (in GGUF files `[channels, kernel]`) of this name, transposed:
    /// `[kernel, channels]` in f32.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn convolution(&mut self, name: &str, channels: usize, kernel: usize) -> Result<Tensor, ModelError> {
        let (shape, without_one) = ([channels, 1, kernel], [channels, kernel]);
        self.placement.add_vector(channels * kernel);
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                let refused = match heads.expect(name, &without_one) {
                    Ok(_) => None,
                    Err(_) => heads.expect(name, &shape).err(),
                };
                if let Some(error) = refused {
                    return Err(error.into());
                }
                return placement::unread(self.backend, &[kernel, channels]);
            }
        };
        let is_matrix = weights.get(name)?.is_some_and(|tensor| tensor.shape == without_one);
        let tensor = weights.require(name, if is_matrix { &without_one } else { &shape })?;
        let matrix = TensorView { shape: vec![channels, kernel], ..tensor.clone() };
        let matrix = PackedMatrix::pack(self.backend, &matrix)?;
        let rows: Vec<u32> = (0..channels as u32).collect();
        let weight = ops::embedding(self.backend, &matrix, &rows)?.t()?.contiguous()?;
        self.progress.advance(tensor.data.len());
        Ok(weight)
    }

    /// The vector `[size]` of this name, `offset` added to each element.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn vector(&mut self, name: &str, size: usize, offset: f32) -> Result<Tensor, ModelError> {
        self.placement.add_vector(size);
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                heads.expect(name, &[size])?;
                return placement::unread(self.backend, &[size]);
            }
        };
        let tensor = weights.require(name, &[size])?;
        let vector = ops::vector(self.backend, &tensor, offset)?;
        self.progress.advance(tensor.data.len());
        Ok(vector)
    }

    /// Whether the files hold a tensor of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where its entry is damaged.
    pub fn has(&self, name: &str) -> Result<bool, ModelError> {
        let found = match self.source {
            Source::Files(weights) => weights.get(name)?.map(|tensor| tensor.dtype),
            Source::Heads(heads) => heads.find(name)?,
        };
        Ok(found.is_some())
    }
}
