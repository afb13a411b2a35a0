//! Files on disk to tensors: safetensors folders and GGUF files, memory-mapped.
//!
//! Headers are parsed over the mapped bytes ([`gguf::parse_header`], [`safetensors::parse_header`]); no tensor data is
//! read or copied until its bytes are used. Names on disk become canonical ones by the tables in [`names`].
mod digest;
mod dtype;
mod error;
pub mod fetch;
pub mod gguf;
mod heads;
mod json;
pub mod lock;
pub mod manifest;
mod mapped;
mod mapped_matrix;
mod mxfp4;
pub mod names;
mod open;
mod quantization;
pub mod safetensors;
mod shards;
mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

pub(crate) use self::digest::hex;
pub use self::{
    digest::{file_digest, file_digest_with_progress},
    dtype::{Storage, TensorInfo, WeightDtype},
    error::WeightsError,
    gguf::GgufMetadata,
    heads::{PublishedTensors, RecordedHeads, TensorHeads},
    mapped_matrix::MappedMatrix,
    mxfp4::Mxfp4Experts,
    names::Conventions,
    quantization::Quantization,
};
use self::{
    mapped::{MappedFile, open_regular},
    open::Source,
    table::{TableEntry, TensorTable},
};

/// A tensor as it lies in the mapped file.
#[derive(Debug, Clone)]
pub struct TensorView<'a> {
    /// The name on disk.
    pub name: &'a str,
    /// Element storage.
    pub dtype: WeightDtype,
    /// Row-major shape, outermost first: a linear layer is `[out, in]`; blocks run along the last dimension.
    pub shape: Vec<usize>,
    /// The raw little-endian bytes. Their address has no alignment to rely on.
    pub data: &'a [u8],
}

/// What the weights say of their model.
pub enum ModelMetadata<'a> {
    /// The metadata of a GGUF file.
    Gguf(&'a GgufMetadata),
    /// `config.json` (and `generation_config.json`, null where absent) of an HF folder.
    HfFolder {
        /// Folder.
        folder: &'a Path,
        /// config.json
        config: &'a serde_json::Value,
        /// generation_config.json
        generation_config: &'a serde_json::Value,
    },
}

/// An opened model on disk.
pub struct Weights {
    path: PathBuf,
    source: Source,
    files: Vec<MappedFile>,
    table: TensorTable,
    conventions: Conventions,
}

impl Weights {
    /// Opens a `.gguf` file, a `.safetensors` file beside its config.json, or an HF folder (`model.safetensors`, else
    /// the shards of `model.safetensors.index.json`). Files are mapped and must not be changed while this lives.
    ///
    /// # Errors
    /// Whatever is wrong with a header, see [`WeightsError`]. A dtype we do not support is an error only of
    /// [`Self::get`], so that the other tensors of such a file can be used.
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        open::open(path)
    }

    /// What the file says of its model.
    pub fn metadata(&self) -> ModelMetadata<'_> {
        match &self.source {
            Source::Gguf(metadata) => ModelMetadata::Gguf(metadata),
            Source::HfFolder(hf) => ModelMetadata::HfFolder {
                folder: &hf.folder,
                config: &hf.config,
                generation_config: &hf.generation_config,
            },
        }
    }

    /// How the values differ from an HF checkpoint's.
    pub fn conventions(&self) -> Conventions {
        self.conventions
    }

    /// Looks a tensor up by its canonical HF name without prefix variants, e.g. `model.layers.0.self_attn.q_proj.weight`,
    /// `model.embed_tokens.weight`, `model.norm.weight`, `lm_head.weight`. GGUF names and the prefixes
    /// `model.language_model.` / `language_model.model.` are mapped. A GGUF tensor without an HF counterpart, or of an
    /// architecture not in [`names::known_gguf_architectures`], keeps its name on disk.
    ///
    /// # Errors
    /// [`WeightsError::UnsupportedDtype`] names the tensor and its dtype.
    pub fn get(&self, name: &str) -> Result<Option<TensorView<'_>>, WeightsError> {
        self.table.find(name).map(|e| self.view(e)).transpose()
    }

    /// As [`Self::get`], but absence is an error, and the shape must be `shape`.
    pub fn require(&self, name: &str, shape: &[usize]) -> Result<TensorView<'_>, WeightsError> {
        self.required_entry(name, shape).map(|(_, view)| view)
    }

    fn required_entry(
        &self,
        name: &str,
        shape: &[usize],
    ) -> Result<(&TableEntry, TensorView<'_>), WeightsError> {
        let Some(entry) = self.table.find(name) else {
            return Err(WeightsError::MissingTensor { file: self.path.clone(), tensor: name.into() });
        };
        let view = self.view(entry)?;
        if view.shape != shape {
            return Err(WeightsError::Shape {
                file: self.files[entry.file].path.clone(),
                tensor: view.name.into(),
                found: view.shape,
                expected: shape.into(),
            });
        }
        Ok((entry, view))
    }

    /// The bytes of a tensor of type `U8`, which is no number of the model but a part of a format (see [`Mxfp4Experts`]).
    ///
    /// # Errors
    /// [`WeightsError::MissingTensor`], [`WeightsError::Dtype`] or [`WeightsError::Shape`].
    pub fn require_bytes(&self, name: &str, shape: &[usize]) -> Result<&[u8], WeightsError> {
        let Some(TableEntry { file, info, .. }) = self.table.find(name) else {
            return Err(WeightsError::MissingTensor { file: self.path.clone(), tensor: name.into() });
        };
        let file = &self.files[*file];
        if info.storage.name() != "U8" {
            let (tensor, found) = (info.name.clone(), info.storage.name().to_owned());
            return Err(WeightsError::Dtype { file: file.path.clone(), tensor, found, expected: "U8" });
        }
        if info.shape != shape {
            return Err(WeightsError::Shape {
                file: file.path.clone(),
                tensor: info.name.clone(),
                found: info.shape.clone(),
                expected: shape.into(),
            });
        }
        Ok(&file.bytes[info.range.clone()])
    }

    fn view<'a>(&'a self, entry: &'a TableEntry) -> Result<TensorView<'a>, WeightsError> {
        let file = &self.files[entry.file];
        match &entry.info.storage {
            Storage::Supported(dtype) => Ok(TensorView {
                name: &entry.info.name,
                dtype: *dtype,
                shape: entry.info.shape.clone(),
                data: &file.bytes[entry.info.range.clone()],
            }),
            Storage::Unsupported(dtype) => Err(WeightsError::UnsupportedDtype {
                file: file.path.clone(),
                tensor: entry.info.name.clone(),
                dtype: dtype.to_string(),
            }),
        }
    }

    /// All text-model tensors by canonical name, as the headers describe them, in file order.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> + Clone {
        self.table.entries.iter().map(|entry| (entry.canonical.as_str(), &entry.info))
    }

    /// Canonical names of all text-model tensors, in file order.
    pub fn tensor_names(&self) -> Vec<String> {
        let entries = self.table.entries.iter();
        entries.map(|entry| entry.canonical.clone()).collect()
    }

    /// Parts that were left out (vision and audio towers, extra heads): prefix on disk, and number of tensors.
    pub fn skipped(&self) -> &[(String, usize)] {
        &self.table.skipped
    }

    /// The path it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The mapped files, in the order their tensors are listed.
    pub fn weight_files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Bytes of all text-model tensors on disk.
    pub fn total_bytes(&self) -> u64 {
        let entries = self.table.entries.iter();
        entries.map(|entry| entry.info.range.len() as u64).sum()
    }

    /// sha256 over the content of the weight and config files, hex. Streams the files.
    ///
    /// Of a GGUF file it is the file's own sha256. Of a folder it is the sha256 of the lines that `sha256sum` prints
    /// for `config.json`, `generation_config.json` where there is one, and the weight files, in the byte order of their
    /// names (`LC_ALL=C sha256sum config.json *.safetensors | sha256sum`): it depends on neither folder nor machine.
    pub fn digest(&self) -> Result<String, WeightsError> {
        self.digest_with_progress(&mut |_, _| {})
    }

    /// As [`Self::digest`]; `progress` is told after each chunk how many bytes are done, and how many there are.
    pub fn digest_with_progress(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<String, WeightsError> {
        let mut configs = Vec::new();
        if let Source::HfFolder(hf) = &self.source {
            for name in ["config.json", "generation_config.json"] {
                let path = hf.folder.join(name);
                // The second is optional; a first that has vanished since opening is an error of the next line.
                if name == "config.json" || path.exists() {
                    configs.push((open_regular(&path)?, path));
                }
            }
        }
        let weights = self.files.iter().map(|f| (&f.file, f.path.as_path()));
        let mut files: Vec<_> =
            configs.iter().map(|(file, path)| (file, path.as_path())).chain(weights).collect();
        files.sort_by_key(|(_, path)| path.file_name());
        let mut total = 0;
        for (file, path) in &files {
            total += digest::length(file, path)?;
        }
        let mut done = 0;
        let mut lines = Vec::new();
        for (file, path) in &files {
            let digest = digest::digest_open_file(file, path, &mut |bytes| {
                done += bytes;
                progress(done, total);
            })?;
            if let Source::Gguf(_) = self.source {
                return Ok(digest);
            }
            let name = path.file_name().unwrap_or_default().as_encoded_bytes();
            lines.extend_from_slice(digest.as_bytes());
            lines.extend_from_slice(b"  ");
            lines.extend_from_slice(name);
            lines.push(b'\n');
        }
        Ok(digest::hex(&Sha256::digest(&lines)))
    }
}
