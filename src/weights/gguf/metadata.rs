//! Typed access to GGUF metadata. Values stay where they lie in the file: a vocabulary is not copied.
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::WeightsError,
    GgufHeader, Key, parse_header,
    reader::Reader,
    value::{ValueType, read_array_head, read_bool},
};

/// Bytes somebody keeps alive: a memory map, or a buffer.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// GGUF key-value metadata.
#[derive(Clone)]
pub struct GgufMetadata {
    bytes: SharedBytes,
    header: Arc<GgufHeader>,
    path: PathBuf,
}

impl GgufMetadata {
    /// Parses the header of a whole GGUF file. `path` is named in errors.
    pub fn parse(bytes: SharedBytes, path: &Path) -> Result<Self, WeightsError> {
        let header = parse_header((*bytes).as_ref(), path)?;
        Ok(Self { bytes, header: Arc::new(header), path: path.into() })
    }

    /// The header, for its tensors.
    pub fn header(&self) -> &GgufHeader {
        &self.header
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All keys, in file order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.header.keys.iter().map(|key| key.name.as_str())
    }

    /// The architecture (`general.architecture`).
    pub fn architecture(&self) -> Result<&str, WeightsError> {
        let key = "general.architecture";
        self.string(key)?.ok_or_else(|| WeightsError::MissingKey { file: self.path.clone(), key: key.into() })
    }

    /// An unsigned value; errors name the file and key. Any integer width that holds a non-negative value.
    pub fn u64(&self, key: &str) -> Result<Option<u64>, WeightsError> {
        find_u64((*self.bytes).as_ref(), &self.path, &self.header.keys, key)
    }

    /// A float; a double is rounded to single.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, WeightsError> {
        self.scalar(key, "a float", ValueType::read_float)
    }

    /// A bool.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, WeightsError> {
        self.scalar(key, "a bool", |value_type, reader, field| match value_type {
            ValueType::Bool => read_bool(reader, field).map(Some),
            _ => Ok(None),
        })
    }

    /// A string.
    pub fn string(&self, key: &str) -> Result<Option<&str>, WeightsError> {
        self.scalar(key, "a string", |value_type, reader, field| match value_type {
            ValueType::String => reader.string(field).map(Some),
            _ => Ok(None),
        })
    }

    /// A list of strings.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<&str>>, WeightsError> {
        self.list(key, "an array of strings", |value_type, reader, field| match value_type {
            ValueType::String => reader.string(field).map(Some),
            _ => Ok(None),
        })
    }

    /// A list of floats; doubles are rounded to single.
    pub fn f32s(&self, key: &str) -> Result<Option<Vec<f32>>, WeightsError> {
        self.list(key, "an array of floats", ValueType::read_float)
    }

    /// A list of bools.
    pub fn bools(&self, key: &str) -> Result<Option<Vec<bool>>, WeightsError> {
        self.list(key, "an array of bools", |value_type, reader, field| match value_type {
            ValueType::Bool => read_bool(reader, field).map(Some),
            _ => Ok(None),
        })
    }

    /// A list of integers of any width.
    pub fn i64s(&self, key: &str) -> Result<Option<Vec<i64>>, WeightsError> {
        let expected = "an array of integers that fit 64 signed bits";
        self.list(key, expected, |value_type, reader, field| {
            let value = value_type.read_integer(reader, field)?;
            Ok(value.and_then(|value| i64::try_from(value).ok()))
        })
    }

    fn scalar<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(ValueType, &mut Reader<'a>, &dyn std::fmt::Display) -> Result<Option<T>, WeightsError>,
    ) -> Result<Option<T>, WeightsError> {
        let Some(found) = self.header.keys.iter().find(|k| k.name == key) else {
            return Ok(None);
        };
        let mut reader = Reader::new((*self.bytes).as_ref(), found.at, &self.path);
        match read(found.value_type, &mut reader, &format_args!("metadata key {key:?}"))? {
            Some(value) => Ok(Some(value)),
            None => Err(self.mismatch(key, found.value_type.name().into(), expected)),
        }
    }

    fn list<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl Fn(ValueType, &mut Reader<'a>, &dyn std::fmt::Display) -> Result<Option<T>, WeightsError>,
    ) -> Result<Option<Vec<T>>, WeightsError> {
        let Some(found) = self.header.keys.iter().find(|k| k.name == key) else {
            return Ok(None);
        };
        if found.value_type != ValueType::Array {
            return Err(self.mismatch(key, found.value_type.name().into(), expected));
        }
        let field = format_args!("metadata key {key:?}");
        let mut reader = Reader::new((*self.bytes).as_ref(), found.at, &self.path);
        let (element, count) = read_array_head(&mut reader, &field)?;
        let mut values = Vec::new();
        for index in 0..count {
            match read(element, &mut reader, &field)? {
                Some(value) => values.push(value),
                None => {
                    let found = format!("an array of {} (element {index})", element.name());
                    return Err(self.mismatch(key, found, expected));
                }
            }
        }
        Ok(Some(values))
    }

    fn mismatch(&self, key: &str, found: String, expected: &'static str) -> WeightsError {
        WeightsError::KeyType { file: self.path.clone(), key: key.into(), found, expected }
    }
}

/// A non-negative integer of any width, straight from the parts of a header that is still being parsed.
pub(super) fn find_u64(
    bytes: &[u8],
    file: &Path,
    keys: &[Key],
    key: &str,
) -> Result<Option<u64>, WeightsError> {
    let Some(found) = keys.iter().find(|k| k.name == key) else {
        return Ok(None);
    };
    let mut reader = Reader::new(bytes, found.at, file);
    let value = found.value_type.read_integer(&mut reader, &format_args!("metadata key {key:?}"))?;
    match value.map(u64::try_from) {
        Some(Ok(value)) => Ok(Some(value)),
        _ => Err(WeightsError::KeyType {
            file: file.into(),
            key: key.into(),
            found: match value {
                Some(value) => format!("the {} {value}", found.value_type.name()),
                None => found.value_type.name().into(),
            },
            expected: "a non-negative integer",
        }),
    }
}
