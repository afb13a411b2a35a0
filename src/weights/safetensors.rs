//! The safetensors header.
//!
//! Parsed here and not by the `safetensors` crate because one tensor of a dtype the crate does not know makes it refuse
//! the whole file, because it does not say which tensor is at fault, and because it lets duplicate names pass.
//!
//! # Source
//! Format section of the safetensors README (Apache-2.0), read 2026-11.
use std::{collections::HashSet, fmt, path::Path};

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::{
    WeightsError,
    dtype::{Storage, TensorInfo, WeightDtype},
    json::{self, Entries},
};

/// The format's own limit.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// More dimensions than any tensor has; keeps a hostile shape from growing.
const MAX_DIMENSIONS: usize = 8;

/// A checked header: every range in it lies inside the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct SafetensorsHeader {
    /// The tensors, in the order of their bytes.
    pub tensors: Vec<TensorInfo>,
}

/// Parses and checks the header of a whole safetensors file; `file` is named in errors.
///
/// # Errors
/// Beside malformed JSON: header or data past the end, sizes that contradict dtype and shape, overlaps and gaps
/// between tensors, duplicate names. An unknown dtype is no error here, see [`Storage::Unsupported`].
pub fn parse_header(bytes: &[u8], file: &Path) -> Result<SafetensorsHeader, WeightsError> {
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(WeightsError::Truncated {
            file: file.into(),
            field: "header length".into(),
            offset: 0,
            needed: 8,
            available: bytes.len() as u64,
        });
    };
    let length = u64::from_le_bytes(*length);
    let limit = MAX_HEADER_BYTES.min(rest.len() as u64);
    let header = usize::try_from(length)
        .ok()
        .filter(|_| length <= limit)
        .and_then(|length| rest.split_at_checked(length));
    let Some((header, data)) = header else {
        return Err(WeightsError::HeaderLength { file: file.into(), length, limit });
    };
    if header.first() != Some(&b'{') {
        return Err(WeightsError::Json {
            file: file.into(),
            what: "header",
            message: "does not begin with '{'".into(),
        });
    }
    let header: Header = json::parse(header, file, "header")?;
    let data_start = bytes.len() - data.len();
    let mut seen = HashSet::new();
    for (name, _) in &header.0 {
        if !seen.insert(name) {
            return Err(WeightsError::Duplicate { file: file.into(), kind: "tensor", name: name.clone() });
        }
    }
    let mut tensors = header
        .0
        .into_iter()
        .map(|(name, entry)| entry.place(name, data_start, data.len(), file))
        .collect::<Result<Vec<_>, _>>()?;
    tensors.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
    check_coverage(&tensors, data_start, data.len(), file)?;
    Ok(SafetensorsHeader { tensors })
}

/// The entries of the header but `__metadata__`, which holds nothing we use.
struct Header(Vec<(String, Entry)>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let named = |e| A::Error::custom(format_args!("{name:?}: {e}"));
                    if name == "__metadata__" {
                        map.next_value::<Entries<String>>().map_err(named)?;
                        continue;
                    }
                    let entry = map.next_value::<Entry>().map_err(named)?;
                    entries.push((name, entry));
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

#[derive(serde::Deserialize)]
struct Entry {
    dtype: String,
    shape: Shape,
    data_offsets: (u64, u64),
}

struct Shape(Vec<u64>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ShapeVisitor;
        impl<'de> Visitor<'de> for ShapeVisitor {
            type Value = Shape;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_DIMENSIONS} dimensions")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Shape, A::Error> {
                let mut dims = Vec::new();
                while let Some(dim) = seq.next_element::<u64>()? {
                    if dims.len() == MAX_DIMENSIONS {
                        return Err(A::Error::invalid_length(dims.len() + 1, &self));
                    }
                    dims.push(dim);
                }
                Ok(Shape(dims))
            }
        }
        deserializer.deserialize_seq(ShapeVisitor)
    }
}

impl Entry {
    fn place(
        self,
        name: String,
        data_start: usize,
        data_len: usize,
        file: &Path,
    ) -> Result<TensorInfo, WeightsError> {
        let (begin, end) = self.data_offsets;
        let sized = byte_len(&self.dtype, &self.shape.0);
        let Some((shape, expected)) = sized else {
            return Err(WeightsError::TensorSize {
                file: file.into(),
                tensor: name,
                dtype: self.dtype,
                shape: self.shape.0,
            });
        };
        if end < begin {
            return Err(WeightsError::ReversedOffsets { file: file.into(), tensor: name, begin, end });
        }
        if let Some(expected) = expected.filter(|&expected| expected != end - begin) {
            return Err(WeightsError::DataOffsets { file: file.into(), tensor: name, begin, end, expected });
        }
        if end > data_len as u64 {
            return Err(WeightsError::PastEnd {
                file: file.into(),
                tensor: name,
                offset: begin,
                length: end - begin,
                available: data_len as u64,
            });
        }
        // Both lie inside the data, whose length is a usize.
        let range = data_start + begin as usize..data_start + end as usize;
        Ok(TensorInfo { name, storage: storage(self.dtype), shape, range })
    }
}

fn storage(dtype: String) -> Storage {
    match dtype.as_str() {
        "F32" => Storage::Supported(WeightDtype::F32),
        "F16" => Storage::Supported(WeightDtype::F16),
        "BF16" => Storage::Supported(WeightDtype::Bf16),
        _ => Storage::Unsupported(dtype.into()),
    }
}

/// Bits an element, for the dtypes the format defines.
fn bits(dtype: &str) -> Option<u64> {
    match dtype {
        "F4" => Some(4),
        "F6_E2M3" | "F6_E3M2" => Some(6),
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => Some(8),
        "U16" | "I16" | "F16" | "BF16" => Some(16),
        "U32" | "I32" | "F32" => Some(32),
        "U64" | "I64" | "F64" | "C64" => Some(64),
        _ => None,
    }
}

/// The shape in memory's integers, and the bytes it takes where the dtype is known. `None` on overflow; zero
/// dimensions count as one, so that no product of a part of an accepted shape can overflow either.
fn byte_len(dtype: &str, shape: &[u64]) -> Option<(Vec<usize>, Option<u64>)> {
    let dims = shape.iter().map(|&dim| usize::try_from(dim).ok()).collect::<Option<Vec<_>>>()?;
    let extent = shape.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim.max(1)))?;
    let Some(bits) = bits(dtype) else {
        return Some((dims, None));
    };
    extent.checked_mul(bits).filter(|&bits| bits / 8 <= isize::MAX as u64)?;
    let elements: u64 = shape.iter().product();
    Some((dims, Some((elements * bits).div_ceil(8))))
}

/// The format demands that tensors cover the data without overlap or gap.
fn check_coverage(
    tensors: &[TensorInfo],
    data_start: usize,
    data_len: usize,
    file: &Path,
) -> Result<(), WeightsError> {
    let mut covered = 0;
    let mut previous: Option<&TensorInfo> = None;
    for tensor in tensors {
        let begin = tensor.range.start - data_start;
        match previous {
            Some(first) if begin < covered => {
                return Err(WeightsError::Overlap {
                    file: file.into(),
                    first: first.name.clone(),
                    second: tensor.name.clone(),
                    begin: begin as u64,
                    end: covered as u64,
                });
            }
            _ if begin > covered => return Err(gap(file, covered, begin)),
            _ => {}
        }
        covered = tensor.range.end - data_start;
        previous = Some(tensor);
    }
    if covered < data_len {
        return Err(gap(file, covered, data_len));
    }
    Ok(())
}

fn gap(file: &Path, begin: usize, end: usize) -> WeightsError {
    WeightsError::Gap { file: file.into(), begin: begin as u64, end: end as u64 }
}
