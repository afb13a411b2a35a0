//! Looking models up, without the network.
use std::path::{Path, PathBuf};

use super::target::Target;
use super::{FetchError, ModelCache, hf_cache};
use crate::weights::lock::{LockOrigin, ModelLock};
use crate::weights::manifest::Source;

/// Where a model is, when it is on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presence {
    /// What to open: a GGUF file, or a folder.
    pub path: PathBuf,
    /// Bytes of its files.
    pub bytes: u64,
    /// Who keeps it.
    pub keeper: &'static str,
}

impl ModelCache {
    /// As [`super::resolve_model`], with this cache's settings.
    ///
    /// # Errors
    /// As [`super::resolve_model`].
    pub fn resolve(&self, spec: &str) -> Result<PathBuf, FetchError> {
        if let Some(target) = Target::parse(spec, &self.manifests)? {
            return match self.present(&target)? {
                Some(presence) => Ok(presence.path),
                None => Err(FetchError::NotPresent { spec: spec.to_string() }),
            };
        }
        let path = Path::new(spec);
        if path.exists() {
            return model_path(path);
        }
        Err(FetchError::UnknownModel { spec: spec.to_string(), known: self.manifests.names() })
    }

    /// Where a manifest's model or `hf:...` is, `None` where it is not on this machine or is incomplete.
    ///
    /// # Errors
    /// A damaged lock file, a name that is neither.
    pub fn presence(&self, spec: &str) -> Result<Option<Presence>, FetchError> {
        match Target::parse(spec, &self.manifests)? {
            Some(target) => self.present(&target),
            None => Err(FetchError::UnknownModel { spec: spec.to_string(), known: self.manifests.names() }),
        }
    }

    fn present(&self, target: &Target) -> Result<Option<Presence>, FetchError> {
        for source in &target.sources {
            let Source::Hub(hub) = source else { continue };
            if let Some(snapshot) = hf_cache::find(&self.settings.hf_cache, hub) {
                let lengths = snapshot.files.iter().map(|name| length(&snapshot.folder.join(name)));
                let bytes = lengths.sum::<Option<u64>>().unwrap_or(0);
                let path = opened_path(&snapshot.folder, &snapshot.files);
                return Ok(Some(Presence { path, bytes, keeper: "Hugging Face cache" }));
            }
        }
        let folder = self.folder(target);
        if let Some(lock) = ModelLock::read(&folder)?.filter(|lock| target.agrees_with(lock)) {
            let files_folder = lock.files_folder(&folder);
            if lock.files.iter().all(|file| length(&files_folder.join(&file.path)) == Some(file.bytes)) {
                let keeper = match lock.origin {
                    LockOrigin::Local => "local",
                    _ => "longwick",
                };
                let bytes = lock.files.iter().map(|file| file.bytes).sum();
                return Ok(Some(Presence { path: locked_path(&folder, &lock), bytes, keeper }));
            }
        }
        for source in &target.sources {
            let Source::Local(local) = source else {
                continue;
            };
            if let Ok(path) = model_path(&local.path) {
                let (folder, names) = local_files(&path)?;
                let bytes = names.iter().filter_map(|name| length(&folder.join(name))).sum();
                return Ok(Some(Presence { path, bytes, keeper: "local" }));
            }
        }
        Ok(None)
    }
}

fn length(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(|metadata| metadata.is_file()).map(|metadata| metadata.len())
}

pub(super) fn locked_path(folder: &Path, lock: &ModelLock) -> PathBuf {
    let names: Vec<String> = lock.files.iter().map(|file| file.path.clone()).collect();
    opened_path(lock.files_folder(folder), &names)
}

/// A model of a single GGUF file is that file, any other is its folder.
fn opened_path(folder: &Path, names: &[String]) -> PathBuf {
    let mut gguf = names.iter().filter(|name| name.ends_with(".gguf"));
    match (gguf.next(), gguf.next()) {
        (Some(name), None) => folder.join(name),
        _ => folder.to_path_buf(),
    }
}

/// Checks that a path may be a model: a GGUF or safetensors file, a folder with `config.json`, or one with a single
/// GGUF file, which is then the model. What is inside is the loader's to judge.
pub(super) fn model_path(path: &Path) -> Result<PathBuf, FetchError> {
    let wrong = |reason: &str| FetchError::NotAModel { path: path.to_path_buf(), reason: reason.to_string() };
    let metadata = std::fs::metadata(path).map_err(|error| wrong(&error.to_string()))?;
    if metadata.is_file() {
        let is_model =
            path.extension().is_some_and(|extension| extension == "gguf" || extension == "safetensors");
        return if is_model {
            Ok(path.to_path_buf())
        } else {
            Err(wrong("a file must end in .gguf or .safetensors"))
        };
    }
    if path.join("config.json").is_file() {
        return Ok(path.to_path_buf());
    }
    let mut gguf = names_in(path)?;
    gguf.retain(|name| name.ends_with(".gguf"));
    match gguf.as_slice() {
        [name] => Ok(path.join(name)),
        [] => Err(wrong("the folder holds neither config.json nor a GGUF file")),
        _ => Err(wrong(&format!("the folder holds several GGUF files, name one: {}", gguf.join(", ")))),
    }
}

/// The files of a local model: the GGUF file alone, or all of a folder's weights and JSON files.
pub(super) fn local_files(path: &Path) -> Result<(PathBuf, Vec<String>), FetchError> {
    let wrong =
        || FetchError::NotAModel { path: path.to_path_buf(), reason: "its name is not UTF-8".to_string() };
    if path.is_file() && path.extension().is_some_and(|extension| extension == "gguf") {
        let folder = path.parent().ok_or_else(wrong)?.to_path_buf();
        let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(wrong)?;
        return Ok((folder, vec![name.to_string()]));
    }
    let folder = if path.is_file() { path.parent().ok_or_else(wrong)? } else { path };
    let mut names = names_in(folder)?;
    names.retain(|name| [".safetensors", ".json", ".jinja"].iter().any(|suffix| name.ends_with(suffix)));
    Ok((folder.to_path_buf(), names))
}

fn names_in(folder: &Path) -> Result<Vec<String>, FetchError> {
    let reading = |error| FetchError::io("reading", folder, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(reading)? {
        let entry = entry.map_err(reading)?;
        if entry.path().is_file() {
            names.extend(entry.file_name().to_str().map(str::to_string));
        }
    }
    names.sort();
    Ok(names)
}
