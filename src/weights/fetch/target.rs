//! What a user's `--model` names.
use crate::weights::lock::ModelLock;
use crate::weights::manifest::{HubSource, ManifestSet, PinnedFile, Source, check_relative, check_repo};

use super::FetchError;

/// A model that can be fetched: a manifest's, or a hub repository's.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// As the user names it.
    pub(super) spec: String,
    /// Its folder under `models/`.
    pub(super) folder_name: String,
    pub(super) pinned: Vec<PinnedFile>,
    pub(super) sources: Vec<Source>,
}

impl Target {
    /// `None`: the text names neither a manifest nor `hf:...`, it may be a path.
    pub(super) fn parse(spec: &str, manifests: &ManifestSet) -> Result<Option<Self>, FetchError> {
        if let Some(manifest) = manifests.get(spec) {
            return Ok(Some(Self {
                spec: spec.to_string(),
                folder_name: manifest.name.clone(),
                pinned: manifest.files.clone(),
                sources: manifest.sources.clone(),
            }));
        }
        let Some(rest) = spec.strip_prefix("hf:") else {
            return Ok(None);
        };
        let wrong = |reason: String| FetchError::Spec { spec: spec.to_string(), reason };
        // A git revision cannot hold a colon, so that the file's part is unambiguous.
        let (rest, file) = match rest.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (rest, None),
        };
        let (repo, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        check_repo(repo).map_err(|(_, reason)| wrong(reason))?;
        check_relative("revision", revision).map_err(|(_, reason)| wrong(format!("revision {reason}")))?;
        let mut folder_name = format!("hf--{}", repo.replace('/', "--"));
        if revision != "main" {
            folder_name = format!("{folder_name}@{}", revision.replace('/', "--"));
        }
        if let Some(file) = file {
            check_relative("file", file).map_err(|(_, reason)| wrong(format!("file {reason}")))?;
            if globset::escape(file) != file {
                return Err(wrong(format!("file {file:?} is a pattern, one file is meant")));
            }
            folder_name = format!("{folder_name}--{}", file.replace('/', "--"));
        }
        let hub = HubSource {
            repo: repo.to_string(),
            revision: revision.to_string(),
            files: file.map(str::to_string).into_iter().collect(),
            optional: Vec::new(),
        };
        let sources = vec![Source::Hub(hub)];
        Ok(Some(Self { spec: spec.to_string(), folder_name, pinned: Vec::new(), sources }))
    }

    pub(super) fn pinned(&self, path: &str) -> Option<&PinnedFile> {
        self.pinned.iter().find(|file| file.path == path)
    }

    /// Whether a lock holds what the manifest pins; a manifest may have changed since.
    pub(super) fn agrees_with(&self, lock: &ModelLock) -> bool {
        self.pinned.iter().all(|pinned| {
            lock.files.iter().any(|file| file.path == pinned.path && file.sha256 == pinned.sha256)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(spec: &str) -> Result<Option<Target>, FetchError> {
        Target::parse(spec, &ManifestSet::default())
    }

    #[test]
    fn hub_names_split_into_repo_revision_and_file() {
        let cases = [
            ("hf:a/b", "a/b", "main", None, "hf--a--b"),
            ("hf:a/b@refs/pr/1", "a/b", "refs/pr/1", None, "hf--a--b@refs--pr--1"),
            ("hf:a/b:q4.gguf", "a/b", "main", Some("q4.gguf"), "hf--a--b--q4.gguf"),
            ("hf:a/b@v1:x/q4.gguf", "a/b", "v1", Some("x/q4.gguf"), "hf--a--b@v1--x--q4.gguf"),
        ];
        for (spec, repo, revision, file, folder) in cases {
            let target = parse(spec).expect(spec).expect("a hub name");
            let Source::Hub(hub) = &target.sources[0] else { panic!("{spec}") };
            assert_eq!((hub.repo.as_str(), hub.revision.as_str()), (repo, revision), "{spec}");
            assert_eq!(hub.files.first().map(String::as_str), file, "{spec}");
            assert_eq!(target.folder_name, folder);
        }
        assert!(parse("some/path").expect("no error").is_none());
    }

    #[test]
    fn malformed_hub_names_are_refused() {
        for spec in [
            "hf:",
            "hf:a",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/b@",
            "hf:a/b@../x",
            "hf:a/b:../x",
            "hf:a/b:*.gguf",
            "hf:/x",
        ] {
            let error = parse(spec).expect_err(spec).to_string();
            assert!(error.contains("hf:owner/name"), "{error}");
        }
    }
}
