//! Finding what a path holds: a GGUF file, a safetensors file, or an HF folder.
use std::{
    collections::HashSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    Weights, WeightsError,
    dtype::TensorInfo,
    gguf::GgufMetadata,
    json,
    mapped::{MappedFile, open_regular},
    names::{self, Conventions, HfName, canonical_gguf_name, canonical_hf_name},
    safetensors,
    shards::read_index,
    table::TensorTable,
};

/// More than any configuration has; bounds the memory of its parsed form.
const MAX_CONFIG_BYTES: u64 = 4 << 20;

/// What stands beside the tensors.
pub(super) enum Source {
    Gguf(GgufMetadata),
    HfFolder(HfFolder),
}

pub(super) struct HfFolder {
    pub(super) folder: PathBuf,
    pub(super) config: serde_json::Value,
    pub(super) generation_config: serde_json::Value,
}

pub(super) fn open(path: &Path) -> Result<Weights, WeightsError> {
    let io = |source| WeightsError::Io { file: path.into(), action: "open", source };
    if std::fs::metadata(path).map_err(io)?.is_dir() {
        return open_folder(path);
    }
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension == Some("gguf") || begins_with_magic(path)? {
        return open_gguf(path);
    }
    if extension == Some("safetensors") {
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let hf = read_configs(folder)?;
        let file = MappedFile::open(path)?;
        let tensors = safetensors::parse_header(&file.bytes, path)?.tensors;
        return finish_hf(path, hf, vec![(file, tensors)]);
    }
    Err(WeightsError::UnknownFormat { file: path.into() })
}

/// Files of the hub's cache have no extension of their own.
fn begins_with_magic(path: &Path) -> Result<bool, WeightsError> {
    let mut file: File = open_regular(path)?;
    let mut magic = [0; 4];
    match file.read_exact(&mut magic) {
        Ok(()) => Ok(&magic == b"GGUF"),
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(source) => Err(WeightsError::Io { file: path.into(), action: "read", source }),
    }
}

fn open_gguf(path: &Path) -> Result<Weights, WeightsError> {
    let file = MappedFile::open(path)?;
    let metadata = GgufMetadata::parse(file.bytes.clone(), path)?;
    if let Some(count) = metadata.u64("split.count")?.filter(|&count| count > 1) {
        return Err(WeightsError::SplitGguf { file: path.into(), count });
    }
    let architecture = metadata.architecture()?;
    let mut table = TensorTable::default();
    for tensor in &metadata.header().tensors {
        let canonical = canonical_gguf_name(architecture, &tensor.name);
        let canonical = canonical.unwrap_or_else(|| tensor.name.clone());
        table.add(canonical, 0, path, tensor.clone())?;
    }
    let conventions = names::gguf_conventions(architecture).unwrap_or_default();
    Ok(Weights { path: path.into(), source: Source::Gguf(metadata), files: vec![file], table, conventions })
}

fn open_folder(folder: &Path) -> Result<Weights, WeightsError> {
    let single = folder.join("model.safetensors");
    let index = folder.join("model.safetensors.index.json");
    if single.exists() {
        let hf = read_configs(folder)?;
        let file = MappedFile::open(&single)?;
        let tensors = safetensors::parse_header(&file.bytes, &single)?.tensors;
        return finish_hf(folder, hf, vec![(file, tensors)]);
    }
    if index.exists() {
        let hf = read_configs(folder)?;
        return finish_hf(folder, hf, open_shards(folder, &index)?);
    }
    let gguf_files = std::fs::read_dir(folder)
        .map_err(|source| WeightsError::Io { file: folder.into(), action: "read", source })?
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "gguf"))
        .count();
    Err(WeightsError::NoWeights { folder: folder.into(), gguf_files })
}

fn open_shards(folder: &Path, index_path: &Path) -> Result<Vec<(MappedFile, Vec<TensorInfo>)>, WeightsError> {
    let Some(index) = read_index(index_path)? else {
        return Err(WeightsError::NoWeights { folder: folder.into(), gguf_files: 0 });
    };
    let mut files = Vec::new();
    for (shard, expected) in index.shards {
        let path = folder.join(&shard);
        if !path.exists() {
            return Err(WeightsError::MissingShard { file: index_path.into(), shard });
        }
        let file = MappedFile::open(&path)?;
        let tensors = safetensors::parse_header(&file.bytes, &path)?.tensors;
        let held: HashSet<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
        if let Some(tensor) = expected.iter().find(|name| !held.contains(name.as_str())) {
            return Err(WeightsError::NotInShard { file: index_path.into(), tensor: tensor.clone(), shard });
        }
        let expected: HashSet<&str> = expected.iter().map(String::as_str).collect();
        if let Some(tensor) = tensors.iter().find(|t| !expected.contains(t.name.as_str())) {
            return Err(WeightsError::NotInIndex {
                file: index_path.into(),
                tensor: tensor.name.clone(),
                shard,
            });
        }
        files.push((file, tensors));
    }
    Ok(files)
}

fn read_configs(folder: &Path) -> Result<HfFolder, WeightsError> {
    let path = folder.join("config.json");
    let Some(config) = read_object(&path)? else {
        return Err(WeightsError::Io {
            file: path,
            action: "open",
            source: std::io::ErrorKind::NotFound.into(),
        });
    };
    let generation_config = read_object(&folder.join("generation_config.json"))?;
    Ok(HfFolder {
        folder: folder.into(),
        config,
        generation_config: generation_config.unwrap_or(serde_json::Value::Null),
    })
}

/// A JSON file that holds an object; `None` where there is no file.
fn read_object(path: &Path) -> Result<Option<serde_json::Value>, WeightsError> {
    let Some(bytes) = json::read_if_exists(path, MAX_CONFIG_BYTES)? else {
        return Ok(None);
    };
    let value: serde_json::Value = json::parse(&bytes, path, "config")?;
    if value.is_object() {
        return Ok(Some(value));
    }
    Err(WeightsError::Json { file: path.into(), what: "config", message: "is not an object".into() })
}

fn finish_hf(
    path: &Path,
    hf: HfFolder,
    opened: Vec<(MappedFile, Vec<TensorInfo>)>,
) -> Result<Weights, WeightsError> {
    let mut table = TensorTable::default();
    let mut files = Vec::new();
    for (file, tensors) in opened {
        for tensor in tensors {
            match canonical_hf_name(&tensor.name) {
                HfName::Skipped(prefix) => table.skip(prefix),
                HfName::Text(canonical) => {
                    let canonical = canonical.into_owned();
                    table.add(canonical, files.len(), &file.path, tensor)?;
                }
            }
        }
        files.push(file);
    }
    Ok(Weights {
        path: path.into(),
        source: Source::HfFolder(hf),
        files,
        table,
        conventions: Conventions::default(),
    })
}
