//! `model.safetensors.index.json`: which tensor lies in which file.
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use super::{
    WeightsError,
    json::{self, Entries},
};

/// More than any index has; one entry takes about 100 bytes.
const MAX_INDEX_BYTES: u64 = 256 << 20;

/// A checked index.
pub(super) struct ShardIndex {
    /// Shard to its tensors, ordered by the shard's name.
    pub(super) shards: BTreeMap<String, Vec<String>>,
}

#[derive(serde::Deserialize)]
struct IndexFile {
    weight_map: Entries<String>,
}

/// Reads the index; `None` where it does not exist.
pub(super) fn read_index(path: &Path) -> Result<Option<ShardIndex>, WeightsError> {
    let Some(bytes) = json::read_if_exists(path, MAX_INDEX_BYTES)? else {
        return Ok(None);
    };
    let index: IndexFile = json::parse(&bytes, path, "index")?;
    let mut seen = HashMap::new();
    let mut shards = BTreeMap::<String, Vec<String>>::new();
    for (tensor, shard) in index.weight_map.0 {
        if seen.insert(tensor.clone(), ()).is_some() {
            return Err(WeightsError::Duplicate { file: path.into(), kind: "index entry", name: tensor });
        }
        // A shard stands beside its index: a path would let a downloaded index open any file of the machine.
        let plain = Path::new(&shard).file_name().is_some_and(|n| n == shard.as_str());
        if !plain {
            return Err(WeightsError::ShardName { file: path.into(), tensor, shard });
        }
        shards.entry(shard).or_default().push(tensor);
    }
    Ok(Some(ShardIndex { shards }))
}
