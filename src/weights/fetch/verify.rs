//! Reading a fetched model again, to see whether it is what it was.
use super::part_file::{Checksum, Difference, Expected, check_file};
use super::progress::FetchProgress;
use super::target::Target;
use super::{FetchError, ModelCache};
use crate::weights::lock::ModelLock;

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCheck {
    /// Path inside the model's folder.
    pub path: String,
    /// Right, gone or changed.
    pub state: FileState,
}

/// Whether a file still is what the lock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// As locked.
    Right,
    /// Not there, or not readable.
    Missing,
    /// Another content.
    Changed {
        /// Length or sha256 in the lock.
        expected: String,
        /// Length or sha256 on disk.
        actual: String,
    },
}

impl ModelCache {
    /// Reads all files of a fetched model and compares them with its lock. Changes nothing.
    ///
    /// # Errors
    /// [`FetchError::NotPresent`] where nothing was fetched, so that there is no lock.
    pub fn verify(&self, spec: &str, progress: &mut dyn FetchProgress) -> Result<Vec<FileCheck>, FetchError> {
        let target = Target::parse(spec, &self.manifests)?.ok_or_else(|| FetchError::UnknownModel {
            spec: spec.to_string(),
            known: self.manifests.names(),
        })?;
        let folder = self.folder(&target);
        let lock =
            ModelLock::read(&folder)?.ok_or_else(|| FetchError::NotPresent { spec: spec.to_string() })?;
        let mut checks = Vec::new();
        for file in &lock.files {
            let expected =
                Expected { bytes: Some(file.bytes), checksum: Some(Checksum::Pinned(file.sha256.clone())) };
            let path = lock.files_folder(&folder).join(&file.path);
            let state = if !path.is_file() {
                FileState::Missing
            } else {
                match check_file(&path, &file.path, &expected, progress)? {
                    Ok(_) => FileState::Right,
                    Err(Difference::Length { expected, actual }) => FileState::Changed {
                        expected: format!("{expected} bytes"),
                        actual: format!("{actual} bytes"),
                    },
                    Err(Difference::Checksum { expected, actual, .. }) => {
                        FileState::Changed { expected, actual }
                    }
                }
            };
            checks.push(FileCheck { path: file.path.clone(), state });
        }
        Ok(checks)
    }
}
