//! How a model's weights are published, and how far its context is documented to stretch.
use globset::Glob;
use serde::{Deserialize, Serialize};

use super::{ModelManifest, is_plain_name};
use crate::weights::{PublishedTensors, WeightDtype};

/// How a checkpoint stores its tensors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedWeights {
    /// Storage of all tensors without an exception, by the name that files use (`BF16`, `Q4_K`).
    pub dtype: String,
    /// Tensors stored otherwise; the first that matches counts.
    #[serde(default, rename = "exception", skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<DtypeException>,
}

/// Tensors that are stored otherwise than a checkpoint's others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DtypeException {
    /// Canonical names, by glob.
    pub tensors: String,
    /// Their storage.
    pub dtype: String,
}

/// A documented way to give a model a longer context than it was trained for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RopeExtension {
    /// The name that `--rope-extension` takes.
    pub name: String,
    /// Tokens of prompt and answer together with it.
    pub context_length: u64,
    /// What to write into `config.json`.
    pub setting: String,
}

type Fault = (&'static str, String);

impl PublishedWeights {
    pub(super) fn check(&self) -> Result<(), Fault> {
        dtype("weights.dtype", &self.dtype)?;
        self.exceptions.iter().try_for_each(|exception| {
            dtype("weights.exception.dtype", &exception.dtype)?;
            glob(&exception.tensors).map(drop)
        })
    }
}

impl RopeExtension {
    pub(super) fn check(&self, context_length: u64) -> Result<(), Fault> {
        if !is_plain_name(&self.name) {
            let reason = format!("{:?} may hold letters, digits, '.', '_' and '-' only", self.name);
            return Err(("rope_extension.name", reason));
        }
        if self.context_length <= context_length {
            let reason = format!("{} is not above {context_length}", self.context_length);
            return Err(("rope_extension.context_length", reason));
        }
        Ok(())
    }
}

impl ModelManifest {
    /// The tensors of the published checkpoint; `None` where the manifest does not say how they are stored.
    pub fn published_tensors(&self) -> Option<PublishedTensors> {
        let weights = self.weights.as_ref()?;
        // A manifest that parsed was checked, so that nothing is left out here.
        let exceptions = weights.exceptions.iter().filter_map(|exception| {
            let names = glob(&exception.tensors).ok()?.compile_matcher();
            Some((names, dtype("weights.exception.dtype", &exception.dtype).ok()?))
        });
        Some(PublishedTensors {
            origin: format!("the manifest of {}", self.name).into(),
            dtype: dtype("weights.dtype", &weights.dtype).ok()?,
            exceptions: exceptions.collect(),
            has_head: self.shapes.tied_embeddings == Some(false),
        })
    }
}

fn dtype(field: &'static str, name: &str) -> Result<WeightDtype, Fault> {
    let unknown = || {
        let known: Vec<&str> = WeightDtype::ALL.iter().map(|dtype| dtype.name()).collect();
        (field, format!("{name:?} is not among {}", known.join(", ")))
    };
    WeightDtype::ALL.into_iter().find(|dtype| dtype.name() == name).ok_or_else(unknown)
}

fn glob(pattern: &str) -> Result<Glob, Fault> {
    Glob::new(pattern).map_err(|error| ("weights.exception.tensors", error.to_string()))
}
