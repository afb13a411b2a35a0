//! [`TextEncoder`]: an encoder with its tokenizer, and what a result that it makes depends on.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::EngineError;
use crate::model::encoder::{Encoder, EncoderConfig};
use crate::ops::Backend;
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;

/// An encoder's name, tokenizer and shapes, read without its weights' values.
pub struct EncoderIdentity {
    /// Digest of weights, config and tokenizer, hex.
    pub digest: String,
    /// The arithmetic in words: backend and longwick's version.
    pub arithmetic: String,
    /// Its shapes.
    pub config: EncoderConfig,
    /// Bytes of its tensors on disk.
    pub weight_bytes: u64,
}

impl EncoderIdentity {
    /// Reads the encoder at `path`; its weight files are hashed, which takes as long as reading them.
    ///
    /// # Errors
    /// As [`TextEncoder::load`].
    pub fn read(path: &Path, threads: Option<NonZeroUsize>) -> Result<Self, EngineError> {
        let backend = Backend::cpu(threads)?;
        let weights = Weights::open(path)?;
        let config = EncoderConfig::from_weights(&weights)?;
        let tokenizer = Tokenizer::from_weights(&weights)?;
        let mut hasher = Sha256::new();
        hasher.update(weights.digest()?);
        hasher.update(tokenizer.digest());
        Ok(Self {
            digest: crate::weights::hex(&hasher.finalize()),
            arithmetic: format!("{} longwick={}", backend.arithmetic(), env!("CARGO_PKG_VERSION")),
            config,
            weight_bytes: weights.total_bytes(),
        })
    }
}

/// An encoder and its tokenizer.
pub struct TextEncoder {
    /// The encoder.
    pub encoder: Encoder,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The folder it was loaded from.
    pub folder: PathBuf,
}

impl TextEncoder {
    /// Loads the encoder in an HF folder, with the special tokens `added` behind its tokenizer's own. `progress(done,
    /// total)` counts bytes on disk.
    ///
    /// # Errors
    /// Whatever is wrong with the files, naming the file and the field; a folder without a tokenizer.
    pub fn load(
        path: &Path,
        threads: Option<NonZeroUsize>,
        added: &[String],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, EngineError> {
        let weights = Weights::open(path)?;
        let encoder = Encoder::load(&weights, &Backend::cpu(threads)?, progress)?;
        let folder = match path.is_dir() {
            true => path.to_owned(),
            false => path.parent().unwrap_or(Path::new(".")).to_owned(),
        };
        let file = folder.join("tokenizer.json");
        let tokenizer = match added {
            [] => Tokenizer::from_weights(&weights)?,
            added => Tokenizer::from_file_with_tokens(&file, added)?,
        };
        Ok(Self { encoder, tokenizer, folder })
    }
}
