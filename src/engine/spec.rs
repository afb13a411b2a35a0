//! [`ModelSpec`]: which model, and what becomes of its weights.

use std::fmt;
use std::path::PathBuf;

use crate::weights::Quantization;

/// A model's files, and the format their float matrices are quantised to. Two that differ in the format are two models:
/// their results are never taken for one another's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModelSpec {
    /// A GGUF file or an HF folder.
    pub path: PathBuf,
    /// What is quantised at load; `None`: nothing.
    pub quantization: Option<Quantization>,
}

impl fmt::Display for ModelSpec {
    /// The file's or folder's own name, and the format.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        write!(formatter, "{}", name.to_string_lossy())?;
        match self.quantization {
            Some(format) => write!(formatter, " ({format})"),
            None => Ok(()),
        }
    }
}
