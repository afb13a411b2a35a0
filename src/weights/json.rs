//! Reading JSON files of weights with bounded size, and JSON objects without losing duplicate keys.
use std::{fmt, fs::File, io::Read, marker::PhantomData, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::WeightsError;

/// A JSON object as its entries in order. serde's maps let the last of two equal keys win, which hides a damaged
/// header; this keeps both, so that the caller can refuse.
pub(super) struct Entries<V>(pub(super) Vec<(String, V)>);

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Entries<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EntriesVisitor<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for EntriesVisitor<V> {
            type Value = Vec<(String, V)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let value =
                        map.next_value().map_err(|e| A::Error::custom(format_args!("{name:?}: {e}")))?;
                    entries.push((name, value));
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(EntriesVisitor(PhantomData)).map(Entries)
    }
}

/// Parses JSON bytes; `what` names the part of the file in the error.
pub(super) fn parse<'de, T: Deserialize<'de>>(
    bytes: &'de [u8],
    file: &Path,
    what: &'static str,
) -> Result<T, WeightsError> {
    serde_json::from_slice(bytes).map_err(|error| WeightsError::Json {
        file: file.into(),
        what,
        message: error.to_string(),
    })
}

/// Reads a file of at most `limit` bytes; `None` where it does not exist.
pub(super) fn read_if_exists(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, WeightsError> {
    let io = |action| move |source| WeightsError::Io { file: path.into(), action, source };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("open")(error)),
        // Opening a pipe would wait for its other end.
        Ok(metadata) if !metadata.is_file() => {
            return Err(WeightsError::NotAFile { file: path.into() });
        }
        Ok(_) => {}
    }
    let file = File::open(path).map_err(io("open"))?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file at the limit from one above it, also when it grows meanwhile.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(io("read"))?;
    if bytes.len() as u64 > limit {
        let length = std::fs::metadata(path).map_or(bytes.len() as u64, |m| m.len());
        return Err(WeightsError::FileTooLarge { file: path.into(), length, limit });
    }
    Ok(Some(bytes))
}
