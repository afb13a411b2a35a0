//! GGUF versions 2 and 3: the header over mapped bytes, and its metadata.
//!
//! # Source
//! `docs/gguf.md` of ggml (MIT), read 2026-11.
mod metadata;
mod reader;
#[cfg(test)]
mod tests;
mod types;
mod value;

use std::{collections::HashSet, path::Path};

pub use metadata::GgufMetadata;

use self::{
    reader::Reader,
    types::ggml_type,
    value::{ValueType, check_value},
};
use super::{
    WeightsError,
    dtype::{Storage, TensorInfo, checked_byte_len},
};

/// Where tensor data is aligned unless `general.alignment` says otherwise.
const DEFAULT_ALIGNMENT: u64 = 32;
/// `GGML_MAX_DIMS`.
const MAX_DIMENSIONS: u32 = 4;
/// Key length, value type and a one-byte value.
const LEAST_KEY_BYTES: u64 = 8 + 4 + 1;
/// Name length, dimension count, one dimension, type and offset.
const LEAST_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

/// A checked header: every offset in it lies inside the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct GgufHeader {
    /// 2 or 3.
    pub version: u32,
    /// Alignment of tensor data.
    pub alignment: u64,
    /// The tensors, in file order.
    pub tensors: Vec<TensorInfo>,
    keys: Vec<Key>,
}

/// A metadata key and where its value lies.
#[derive(Debug, Clone)]
struct Key {
    name: String,
    value_type: ValueType,
    at: usize,
}

/// Parses and checks the header of a whole GGUF file; `file` is named in errors.
///
/// # Errors
/// Every count, length and offset is checked against the bytes that are there before anything is allocated for it.
pub fn parse_header(bytes: &[u8], file: &Path) -> Result<GgufHeader, WeightsError> {
    let mut reader = Reader::new(bytes, 0, file);
    let found = reader.array::<4>(&"magic")?;
    if &found != b"GGUF" {
        return Err(WeightsError::Magic { file: file.into(), found });
    }
    let version = reader.u32(&"version")?;
    if !(2..=3).contains(&version) {
        return Err(WeightsError::Version { file: file.into(), found: version });
    }
    let num_tensors = reader.count(LEAST_TENSOR_BYTES, &"tensor count")?;
    let num_keys = reader.count(LEAST_KEY_BYTES, &"metadata count")?;
    let keys = parse_keys(&mut reader, num_keys)?;
    let alignment = parse_alignment(bytes, file, &keys)?;
    reader.check_count(num_tensors, LEAST_TENSOR_BYTES, &"tensor count")?;
    let declared = parse_tensors(&mut reader, num_tensors)?;
    let data_start = (reader.position() as u64).checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    let tensors = declared
        .into_iter()
        .map(|tensor| tensor.place(bytes.len() as u64, data_start, alignment, file))
        .collect::<Result<Vec<_>, _>>()?;
    check_overlap(&tensors, file)?;
    Ok(GgufHeader { version, alignment, tensors, keys })
}

fn parse_keys(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Key>, WeightsError> {
    let mut keys = Vec::new();
    let mut seen = HashSet::new();
    for index in 0..count {
        let name = reader.name(&format_args!("metadata key {index}"))?;
        if !seen.insert(name) {
            return Err(WeightsError::Duplicate {
                file: reader.file().into(),
                kind: "metadata key",
                name: name.into(),
            });
        }
        let field = format_args!("metadata key {name:?}");
        let value_type = ValueType::read(reader, &field)?;
        let at = reader.position();
        check_value(reader, value_type, &field, 0)?;
        keys.push(Key { name: name.into(), value_type, at });
    }
    Ok(keys)
}

fn parse_alignment(bytes: &[u8], file: &Path, keys: &[Key]) -> Result<u64, WeightsError> {
    let alignment = metadata::find_u64(bytes, file, keys, "general.alignment")?;
    match alignment.unwrap_or(DEFAULT_ALIGNMENT) {
        alignment if alignment.is_power_of_two() => Ok(alignment),
        found => Err(WeightsError::Alignment { file: file.into(), found }),
    }
}

/// A tensor as declared, its offset not yet checked.
struct Declared<'a> {
    name: &'a str,
    /// Row-major.
    shape: Vec<u64>,
    type_id: u32,
    /// From the start of the data.
    offset: u64,
}

fn parse_tensors<'a>(reader: &mut Reader<'a>, count: u64) -> Result<Vec<Declared<'a>>, WeightsError> {
    let mut tensors = Vec::new();
    let mut seen = HashSet::new();
    for index in 0..count {
        let name = reader.name(&format_args!("name of tensor {index}"))?;
        if !seen.insert(name) {
            return Err(WeightsError::Duplicate {
                file: reader.file().into(),
                kind: "tensor",
                name: name.into(),
            });
        }
        let num_dims = reader.u32(&format_args!("dimension count of tensor {name:?}"))?;
        if !(1..=MAX_DIMENSIONS).contains(&num_dims) {
            return Err(WeightsError::Dimensions {
                file: reader.file().into(),
                tensor: name.into(),
                found: num_dims.into(),
                least: 1,
                most: MAX_DIMENSIONS.into(),
            });
        }
        let mut shape = (0..num_dims)
            .map(|_| reader.u64(&format_args!("dimensions of tensor {name:?}")))
            .collect::<Result<Vec<_>, _>>()?;
        // ggml writes the contiguous dimension first.
        shape.reverse();
        tensors.push(Declared {
            name,
            shape,
            type_id: reader.u32(&format_args!("type of tensor {name:?}"))?,
            offset: reader.u64(&format_args!("offset of tensor {name:?}"))?,
        });
    }
    Ok(tensors)
}

impl Declared<'_> {
    /// Checks type, size and place, and gives the tensor its range in the file.
    fn place(
        self,
        file_len: u64,
        data_start: u64,
        alignment: u64,
        file: &Path,
    ) -> Result<TensorInfo, WeightsError> {
        let (storage, shape, length) = self.size(file)?;
        if !self.offset.is_multiple_of(alignment) {
            return Err(WeightsError::Misaligned {
                file: file.into(),
                tensor: self.name.into(),
                offset: self.offset,
                alignment,
            });
        }
        let available = file_len.saturating_sub(data_start);
        let end = self.offset.checked_add(length as u64);
        if data_start > file_len || end.is_none_or(|end| end > available) {
            return Err(WeightsError::PastEnd {
                file: file.into(),
                tensor: self.name.into(),
                offset: self.offset,
                length: length as u64,
                available,
            });
        }
        // Both lie inside the file, whose length is a usize.
        let begin = (data_start + self.offset) as usize;
        Ok(TensorInfo { name: self.name.into(), storage, shape, range: begin..begin + length })
    }

    /// Storage, shape and bytes.
    fn size(&self, file: &Path) -> Result<(Storage, Vec<usize>, usize), WeightsError> {
        let ggml = ggml_type(self.type_id).ok_or_else(|| WeightsError::GgmlType {
            file: file.into(),
            tensor: self.name.into(),
            id: self.type_id,
        })?;
        let row = self.shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(ggml.block_elements as u64) {
            return Err(WeightsError::PartialBlock {
                file: file.into(),
                tensor: self.name.into(),
                dtype: ggml.storage.name().into(),
                row,
                block: ggml.block_elements as u64,
            });
        }
        let shape: Option<Vec<usize>> = self.shape.iter().map(|&d| d.try_into().ok()).collect();
        let sized = shape.and_then(|shape| {
            checked_byte_len(&shape, ggml.block_elements, ggml.block_bytes).map(|len| (shape, len))
        });
        match sized {
            Some((shape, length)) => Ok((ggml.storage, shape, length)),
            None => Err(WeightsError::TensorSize {
                file: file.into(),
                tensor: self.name.into(),
                dtype: ggml.storage.name().into(),
                shape: self.shape.clone(),
            }),
        }
    }
}

fn check_overlap(tensors: &[TensorInfo], file: &Path) -> Result<(), WeightsError> {
    let mut by_place: Vec<&TensorInfo> = tensors.iter().filter(|t| !t.range.is_empty()).collect();
    by_place.sort_by_key(|t| t.range.start);
    for pair in by_place.windows(2) {
        if let [first, second] = pair
            && second.range.start < first.range.end
        {
            return Err(WeightsError::Overlap {
                file: file.into(),
                first: first.name.clone(),
                second: second.name.clone(),
                begin: second.range.start as u64,
                end: first.range.end as u64,
            });
        }
    }
    Ok(())
}
