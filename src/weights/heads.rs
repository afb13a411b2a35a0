//! [`TensorHeads`]: what a checkpoint's tensors are, without their bytes.
use std::{cell::RefCell, collections::BTreeMap, path::PathBuf};

use globset::GlobMatcher;

use super::{Mxfp4Experts, Storage, TensorInfo, WeightDtype, Weights, WeightsError};

/// Tensors by canonical name, of which storage and shape are known and no byte is read.
pub trait TensorHeads {
    /// How the elements of the tensor of this name are stored; `None` where there is no such tensor.
    ///
    /// # Errors
    /// [`WeightsError::UnsupportedDtype`].
    fn find(&self, name: &str) -> Result<Option<WeightDtype>, WeightsError>;

    /// As [`Self::find`], of a tensor that must be there with this shape.
    ///
    /// # Errors
    /// As [`Self::find`], and [`WeightsError::MissingTensor`] and [`WeightsError::Shape`].
    fn expect(&self, name: &str, shape: &[usize]) -> Result<WeightDtype, WeightsError>;

    /// As [`Self::expect`], of MXFP4 matrices `[experts, out, in]` in two tensors (see [`Mxfp4Experts`]).
    ///
    /// # Errors
    /// As [`Mxfp4Experts::find`].
    fn expect_mxfp4(&self, name: &str, shape: [usize; 3]) -> Result<(), WeightsError>;
}

impl TensorHeads for Weights {
    fn find(&self, name: &str) -> Result<Option<WeightDtype>, WeightsError> {
        Ok(self.get(name)?.map(|tensor| tensor.dtype))
    }

    fn expect(&self, name: &str, shape: &[usize]) -> Result<WeightDtype, WeightsError> {
        Ok(self.require(name, shape)?.dtype)
    }

    fn expect_mxfp4(&self, name: &str, [experts, rows, columns]: [usize; 3]) -> Result<(), WeightsError> {
        Mxfp4Experts::find(self, name, experts, rows, columns).map(drop)
    }
}

/// The tensors of a published checkpoint, as its manifest tells of them: each that its family asks for is there with the
/// shape that the family expects.
pub struct PublishedTensors {
    pub(super) origin: PathBuf,
    /// Storage of all tensors without an exception.
    pub(super) dtype: WeightDtype,
    /// The first that matches counts.
    pub(super) exceptions: Vec<(GlobMatcher, WeightDtype)>,
    /// Whether the vocabulary projection is a matrix of its own.
    pub(super) has_head: bool,
}

/// What only GGUF files hold: names ending so. No manifest of a model with experts or sinks has such a file for its source.
const GGUF_ONLY: [&str; 4] = [
    ".mlp.experts.gate_proj.weight",
    ".mlp.experts.up_proj.weight",
    ".mlp.experts.down_proj.weight",
    ".sinks.weight",
];

impl PublishedTensors {
    fn dtype_of(&self, name: &str) -> WeightDtype {
        let exception = self.exceptions.iter().find(|(names, _)| names.is_match(name));
        exception.map_or(self.dtype, |(_, dtype)| *dtype)
    }
}

impl TensorHeads for PublishedTensors {
    fn find(&self, name: &str) -> Result<Option<WeightDtype>, WeightsError> {
        let is_absent = match name {
            "lm_head.weight" => !self.has_head,
            _ => GGUF_ONLY.iter().any(|ending| name.ends_with(ending)),
        };
        Ok(if is_absent { None } else { Some(self.dtype_of(name)) })
    }

    fn expect(&self, name: &str, _shape: &[usize]) -> Result<WeightDtype, WeightsError> {
        let missing = || WeightsError::MissingTensor { file: self.origin.clone(), tensor: name.to_owned() };
        self.find(name)?.ok_or_else(missing)
    }

    fn expect_mxfp4(&self, name: &str, _shape: [usize; 3]) -> Result<(), WeightsError> {
        match self.expect(name, &[])? {
            WeightDtype::Mxfp4 => Ok(()),
            other => Err(WeightsError::Dtype {
                file: self.origin.clone(),
                tensor: name.to_owned(),
                found: other.name().to_owned(),
                expected: "MXFP4",
            }),
        }
    }
}

/// Heads that remember which tensors were asked for.
pub struct RecordedHeads<'a> {
    heads: &'a dyn TensorHeads,
    seen: RefCell<BTreeMap<String, TensorInfo>>,
}

impl<'a> RecordedHeads<'a> {
    /// Nothing is asked for yet.
    pub fn new(heads: &'a dyn TensorHeads) -> Self {
        Self { heads, seen: RefCell::default() }
    }

    /// All tensors that were asked for, by canonical name, as the header of a file would describe them; their ranges are
    /// empty.
    pub fn into_tensors(self) -> BTreeMap<String, TensorInfo> {
        self.seen.into_inner()
    }

    fn record(&self, name: String, storage: Storage, shape: &[usize]) {
        let info = TensorInfo { name: name.clone(), storage, shape: shape.to_vec(), range: 0..0 };
        self.seen.borrow_mut().insert(name, info);
    }
}

impl TensorHeads for RecordedHeads<'_> {
    fn find(&self, name: &str) -> Result<Option<WeightDtype>, WeightsError> {
        self.heads.find(name)
    }

    fn expect(&self, name: &str, shape: &[usize]) -> Result<WeightDtype, WeightsError> {
        let dtype = self.heads.expect(name, shape)?;
        self.record(name.to_owned(), Storage::Supported(dtype), shape);
        Ok(dtype)
    }

    fn expect_mxfp4(&self, name: &str, shape: [usize; 3]) -> Result<(), WeightsError> {
        self.heads.expect_mxfp4(name, shape)?;
        self.record(format!("{name}_blocks"), Storage::Unsupported("U8".into()), &shape);
        Ok(())
    }
}
