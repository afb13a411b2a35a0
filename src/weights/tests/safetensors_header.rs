//! The safetensors header: golden values, and one malformed file for each rule.
use std::path::Path;

use super::super::{
    Storage, WeightDtype, WeightsError,
    safetensors::{SafetensorsHeader, parse_header},
    testing::{bf16_safetensors, safetensors_file},
};

fn parse(header: &str, data_len: usize) -> Result<SafetensorsHeader, WeightsError> {
    let file = safetensors_file(header, &vec![0; data_len]);
    parse_header(&file, Path::new("x.safetensors"))
}

#[test]
fn files_of_the_safetensors_crate_are_read() {
    let bytes = bf16_safetensors(&[("a", &[2, 3]), ("b", &[4]), ("c", &[])]);
    let header = parse_header(&bytes, Path::new("x")).unwrap();
    let reference = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(header.tensors.len(), 3);
    for tensor in header.tensors {
        let expected = reference.tensor(&tensor.name).unwrap();
        assert_eq!(tensor.storage, Storage::Supported(WeightDtype::Bf16));
        assert_eq!(tensor.shape, expected.shape());
        assert_eq!(&bytes[tensor.range], expected.data());
    }
}

#[test]
fn each_dtype_is_known_or_kept_by_name() {
    for (dtype, bytes, supported) in [
        ("F32", 16, Some(WeightDtype::F32)),
        ("F16", 8, Some(WeightDtype::F16)),
        ("BF16", 8, Some(WeightDtype::Bf16)),
        ("U8", 4, None),
        ("F8_E4M3", 4, None),
        ("F4", 2, None),
        ("I64", 32, None),
        ("F3_OF_TOMORROW", 7, None),
    ] {
        let header = format!(
            r#"{{"__metadata__":{{"format":"pt"}},"t":{{"dtype":"{dtype}","shape":[2,2],"data_offsets":[0,{bytes}]}}}}  "#
        );
        let tensor = parse(&header, bytes).unwrap().tensors.remove(0);
        let expected = match supported {
            Some(dtype) => Storage::Supported(dtype),
            None => Storage::Unsupported(dtype.into()),
        };
        assert_eq!(tensor.storage, expected);
        assert_eq!(tensor.range.len(), bytes);
    }
}

/// A header of f32 tensors: name, shape, offsets.
fn header(tensors: &[(&str, &str, u64, u64)]) -> String {
    let tensors: Vec<String> = tensors
        .iter()
        .map(|(name, shape, begin, end)| {
            format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
        })
        .collect();
    format!("{{{}}}", tensors.join(","))
}

macro_rules! refused {
    ($header:expr, $data_len:expr, $variant:ident, $part:expr) => {{
        let error = parse(&$header, $data_len).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, WeightsError::$variant { .. }), "{message}");
        assert!(message.starts_with("x.safetensors: "), "{message}");
        assert!(message.contains($part), "{message}");
    }};
}

#[test]
fn malformed_layouts_are_refused() {
    assert_eq!(parse(&header(&[("a", "[1]", 0, 4), ("b", "[2]", 4, 12)]), 12).unwrap().tensors.len(), 2);
    refused!(header(&[("a", "[1]", 4, 0)]), 4, ReversedOffsets, "[4, 0]");
    refused!(header(&[("a", "[2]", 0, 4)]), 4, DataOffsets, "take 8 bytes");
    refused!(header(&[("a", "[2]", 0, 8)]), 4, PastEnd, "which has 4");
    refused!(header(&[("a", "[1]", u64::MAX - 4, u64::MAX)]), 4, PastEnd, "byte 18446744073709551611");
    refused!(header(&[("a", "[1]", 0, 4), ("b", "[1]", 0, 4)]), 8, Overlap, "\"b\" begins at byte 0");
    refused!(header(&[("a", "[1]", 0, 4), ("b", "[1]", 8, 12)]), 12, Gap, "bytes 4 to 8");
    refused!(header(&[("a", "[1]", 0, 4)]), 5, Gap, "bytes 4 to 5");
    refused!(header(&[]), 1, Gap, "bytes 0 to 1");
    refused!(header(&[("a", "[1]", 0, 4), ("a", "[1]", 4, 8)]), 8, Duplicate, "tensor \"a\"");
    refused!(header(&[("a", "[4294967296,4294967296]", 0, 4)]), 4, TensorSize, "4294967296");
    refused!(header(&[("a", "[18446744073709551615,0]", 0, 0)]), 0, TensorSize, "\"a\"");
}

#[test]
fn malformed_json_is_refused() {
    refused!(header(&[("a", "[-1]", 0, 4)]), 4, Json, "\"a\"");
    refused!(header(&[("a", "[1.5]", 0, 4)]), 4, Json, "1.5");
    refused!(header(&[("a", "[1,1,1,1,1,1,1,1,1]", 0, 4)]), 4, Json, "at most 8 dimensions");
    refused!(r#"{"a":{"dtype":"F32","shape":[1]}}"#, 4, Json, "data_offsets");
    refused!(
        r#"{"a":{"dtype":"F32","dtype":"F16","shape":[1],"data_offsets":[0,4]}}"#,
        4,
        Json,
        "duplicate field"
    );
    refused!(r#"{"a":7}"#, 4, Json, "\"a\"");
    refused!(r#"{"__metadata__":{"x":1}}"#, 0, Json, "__metadata__");
    refused!("[]", 0, Json, "'{'");
    refused!("", 0, Json, "'{'");
    refused!("{", 0, Json, "EOF");
    refused!("{} x", 0, Json, "trailing");
    refused!(format!(r#"{{"a":{}"#, "[".repeat(100_000)), 0, Json, "\"a\"");
}

#[test]
fn header_lengths_are_checked_against_the_file() {
    for length in [u64::MAX, 100_000_001, 9] {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(b"{}      ");
        let error = parse_header(&bytes, Path::new("x")).unwrap_err();
        assert!(
            matches!(error, WeightsError::HeaderLength { length: found, limit: 8, .. } if found == length),
            "{error}"
        );
    }
    let error = parse_header(&[1, 2, 3], Path::new("x")).unwrap_err();
    assert!(matches!(error, WeightsError::Truncated { available: 3, .. }), "{error}");
}
