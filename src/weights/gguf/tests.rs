//! The GGUF header: golden values, and one malformed file for each rule.
#![allow(clippy::unwrap_used)]
use std::{path::Path, sync::Arc};

use super::{
    super::{
        Storage, WeightsError,
        testing::{GGML_IDS, GgufWriter, Value, rich_gguf, text},
    },
    GgufHeader, GgufMetadata, parse_header,
};

fn parse(writer: &GgufWriter) -> Result<GgufHeader, WeightsError> {
    parse_header(&writer.finish(), Path::new("x.gguf"))
}

fn metadata() -> GgufMetadata {
    GgufMetadata::parse(Arc::new(rich_gguf().finish()), Path::new("x.gguf")).unwrap()
}

#[test]
fn every_dtype_has_its_shape_and_bytes() {
    let bytes = rich_gguf().finish();
    let header = parse_header(&bytes, Path::new("x.gguf")).unwrap();
    assert_eq!((header.version, header.alignment), (3, 32));
    assert_eq!(header.tensors.len(), GGML_IDS.len());
    for (tensor, (dtype, id)) in header.tensors.iter().zip(GGML_IDS) {
        assert_eq!(tensor.storage, Storage::Supported(dtype));
        // ggml's [256, 2] is two rows of 256.
        assert_eq!(tensor.shape, [2, 256]);
        let expected = 512 / dtype.block_elements() * dtype.block_bytes();
        assert_eq!(tensor.range.len(), expected, "{dtype}");
        assert_eq!(bytes[tensor.range.start], id as u8, "{dtype}");
        assert_eq!(tensor.range.start % 32, 0);
    }
}

#[test]
fn version_2_reads_as_3_does() {
    let mut writer = rich_gguf();
    writer.version = 2;
    assert_eq!(parse(&writer).unwrap().tensors, parse(&rich_gguf()).unwrap().tensors);
}

#[test]
fn alignment_is_the_files_own() {
    let mut writer = GgufWriter::new("llama").key("general.alignment", Value::U32(256));
    writer.alignment = 256;
    let writer = writer.tensor("a", &[1], 0, &[1, 2, 3, 4]).tensor("b", &[1], 0, &[5, 6, 7, 8]);
    let header = parse(&writer).unwrap();
    assert_eq!(header.tensors[1].range.start - header.tensors[0].range.start, 256);
    assert_eq!(writer.finish()[header.tensors[1].range.clone()], [5, 6, 7, 8]);
}

#[test]
fn metadata_is_read_by_type() {
    let m = metadata();
    assert_eq!(m.architecture().unwrap(), "qwen3");
    assert_eq!(m.u64("a.u8").unwrap(), Some(7));
    assert_eq!(m.u64("a.u16").unwrap(), Some(700));
    assert_eq!(m.u64("a.u64").unwrap(), Some(u64::MAX));
    assert_eq!(m.u64("a.i64").unwrap(), Some(5));
    assert_eq!(m.u64("absent").unwrap(), None);
    assert_eq!(m.f32("a.f32").unwrap(), Some(0.5));
    assert_eq!(m.f32("a.f64").unwrap(), Some(0.25));
    assert_eq!(m.bool("a.bool").unwrap(), Some(true));
    assert_eq!(m.strings("a.strings").unwrap(), Some(vec!["x", "", "yé"]));
    assert_eq!(m.strings("absent").unwrap(), None);
    assert_eq!(m.f32s("a.floats").unwrap(), Some(vec![1.0, -2.0]));
    assert_eq!(m.i64s("a.ints").unwrap(), Some(vec![3, -4]));
    assert_eq!(m.bools("a.bools").unwrap(), Some(vec![false, true]));
    assert_eq!(m.keys().next(), Some("general.architecture"));
    assert_eq!(m.keys().count(), 15);
    assert_eq!(m.path(), Path::new("x.gguf"));
}

#[test]
fn a_value_of_another_type_is_an_error_that_says_both() {
    let m = metadata();
    let message = m.u64("a.i32").unwrap_err().to_string();
    assert_eq!(message, "x.gguf: metadata key \"a.i32\" is the i32 -70000, expected a non-negative integer");
    let errors = [
        m.u64("a.i8").unwrap_err(),
        m.u64("a.f32").unwrap_err(),
        m.u64("a.bool").unwrap_err(),
        m.f32("a.u8").unwrap_err(),
        m.bool("a.u8").unwrap_err(),
        m.string("a.strings").unwrap_err(),
        m.strings("general.architecture").unwrap_err(),
        m.strings("a.ints").unwrap_err(),
        m.f32s("a.ints").unwrap_err(),
        m.i64s("a.nested").unwrap_err(),
        m.bools("a.ints").unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, WeightsError::KeyType { .. }), "{error}");
    }
    let message = m.i64s("a.floats").unwrap_err().to_string();
    assert!(message.contains("an array of f32 (element 0)"), "{message}");
}

/// A file with one tensor of eight f32.
fn small() -> GgufWriter {
    GgufWriter::new("llama").tensor("t", &[4, 2], 0, &[0; 32])
}

/// Asserts the error's variant and that its message names the file and holds `part`.
macro_rules! refused {
    ($writer:expr, $variant:ident, $part:expr) => {{
        let error = parse(&$writer).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, WeightsError::$variant { .. }), "{message}");
        assert!(message.starts_with("x.gguf: "), "{message}");
        assert!(message.contains($part), "{message}");
    }};
}

#[test]
fn malformed_preambles_are_refused() {
    let changed = |change: fn(&mut GgufWriter)| {
        let mut writer = small();
        change(&mut writer);
        writer
    };
    refused!(changed(|w| w.magic = *b"GGML"), Magic, "expected \"GGUF\"");
    refused!(changed(|w| w.version = 1), Version, "version 1");
    refused!(changed(|w| w.version = 3 << 24), Version, "version 50331648");
    refused!(changed(|w| w.tensor_count = Some(u64::MAX)), Count, "tensor count is 18446744073709551615");
    refused!(changed(|w| w.key_count = Some(1 << 40)), Count, "metadata count is 1099511627776");
    // A count that fits the bytes but not the items reads the data as names.
    assert!(parse(&changed(|w| w.tensor_count = Some(2))).is_err());
    assert!(matches!(
        parse_header(b"GGUF\x03\0\0\0\x01", Path::new("x.gguf")),
        Err(WeightsError::Truncated { needed: 8, available: 1, offset: 8, .. })
    ));
    assert!(matches!(
        parse_header(b"", Path::new("x.gguf")),
        Err(WeightsError::Truncated { needed: 4, available: 0, .. })
    ));
}

#[test]
fn malformed_metadata_is_refused() {
    let with = |value| small().key("k", value);
    refused!(with(Value::Bool(2)), BoolValue, "\"k\" is a bool with value 2");
    refused!(with(Value::Array(7, vec![Value::Bool(9)])), BoolValue, "value 9");
    refused!(with(Value::Text(vec![0xff])), Utf8, "key \"k\" at byte");
    refused!(with(Value::Array(8, vec![Value::Text(vec![0xc3])])), Utf8, "\"k\"");
    refused!(with(Value::Array(13, vec![])), ValueType, "value type 13");
    let nest = |depth| (0..depth).fold(Value::U8(0), |inner, _| Value::Array(inner.type_id(), vec![inner]));
    assert!(parse(&with(nest(4))).is_ok());
    refused!(with(nest(5)), Nesting, "deeper than 4");
    refused!(with(nest(10_000)), Nesting, "deeper than 4");
    refused!(small().key("k", Value::U8(1)).key("k", Value::U8(1)), Duplicate, "metadata key \"k\"");
    for alignment in [0, 3, 48] {
        let writer = small().key("general.alignment", Value::U32(alignment));
        refused!(writer, Alignment, "power of two");
    }
    refused!(small().key("general.alignment", text("32")), KeyType, "general.alignment");
    let mut writer = small();
    writer.keys.push((vec![0xfe, 0xfe], Value::U8(1)));
    refused!(writer, Utf8, "metadata key 1");
}

#[test]
fn names_are_bounded() {
    let name = |len: usize| small().key(&"k".repeat(len), Value::U8(0));
    assert!(parse(&name(65_535)).is_ok());
    refused!(name(65_536), NameLength, "metadata key 1 has 65536 bytes");
    let writer = small().change_last(|t| t.name = vec![b't'; 65_536]);
    refused!(writer, NameLength, "name of tensor 0");
}

#[test]
fn hostile_lengths_in_metadata_are_refused() {
    let bytes = GgufWriter::new("llama").key("k", text("abc")).finish();
    let at = bytes.windows(3).position(|w| w == b"abc").unwrap();
    for length in [u64::MAX, u64::MAX - 7, 1 << 63, bytes.len() as u64] {
        let mut bytes = bytes.clone();
        bytes[at - 8..at].copy_from_slice(&length.to_le_bytes());
        let error = parse_header(&bytes, Path::new("x.gguf")).unwrap_err();
        assert!(matches!(error, WeightsError::Truncated { needed, .. } if needed == length), "{error}");
    }
    let array = Value::Array(10, vec![Value::U64(0x1122_3344_5566_7788)]);
    let bytes = GgufWriter::new("llama").key("k", array).finish();
    let element = 0x1122_3344_5566_7788u64.to_le_bytes();
    let at = bytes.windows(8).position(|w| w == element).unwrap();
    for count in [u64::MAX, 1 << 61, 1000] {
        let mut bytes = bytes.clone();
        bytes[at - 8..at].copy_from_slice(&count.to_le_bytes());
        let error = parse_header(&bytes, Path::new("x.gguf")).unwrap_err();
        assert!(matches!(error, WeightsError::Count { count: found, .. } if found == count), "{error}");
    }
}

#[test]
fn malformed_tensors_are_refused() {
    refused!(small().change_last(|t| t.name = vec![0xff]), Utf8, "name of tensor 0");
    refused!(small().change_last(|t| t.dims = vec![]), Dimensions, "0 dimensions");
    refused!(small().change_last(|t| t.dims = vec![1; 5]), Dimensions, "5 dimensions, allowed are 1 to 4");
    refused!(small().change_last(|t| t.type_id = 4), GgmlType, "\"t\" has ggml type 4");
    refused!(small().change_last(|t| t.type_id = 1000), GgmlType, "ggml type 1000");
    refused!(small().change_last(|t| t.dims = vec![1 << 32, 1 << 32]), TensorSize, "F32");
    refused!(small().change_last(|t| t.dims = vec![u64::MAX, 0]), TensorSize, "18446744073709551615");
    refused!(small().change_last(|t| t.dims = vec![1 << 61]), TensorSize, "2305843009213693952");
    refused!(small().change_last(|t| t.offset = 16), Misaligned, "offset 16");
    refused!(small().change_last(|t| t.offset = 32), PastEnd, "32 bytes from byte 32");
    refused!(small().change_last(|t| t.offset = u64::MAX - 31), PastEnd, "18446744073709551584");
    refused!(
        small().change_last(|t| t.dims = vec![9]),
        PastEnd,
        "36 bytes from byte 0 of the data, which has 32"
    );
    refused!(
        small().change_last(|t| t.type_id = 2),
        PartialBlock,
        "Q4_0 has rows of 4 elements, not a multiple of its block of 32"
    );
    refused!(
        small().change_last(|t| {
            t.type_id = 17;
            t.dims = vec![32]
        }),
        PartialBlock,
        "IQ2_XS"
    );
    refused!(small().tensor("t", &[1], 0, &[0; 4]), Duplicate, "tensor \"t\"");
    refused!(small().tensor("u", &[1], 0, &[0; 4]).change_last(|t| t.offset = 0), Overlap, "\"t\"");
}

#[test]
fn a_header_that_ends_the_file_has_no_data() {
    let mut bytes = small().finish();
    bytes.truncate(bytes.len() - 32);
    let error = parse_header(&bytes, Path::new("x.gguf")).unwrap_err();
    assert!(matches!(error, WeightsError::PastEnd { available: 0, .. }), "{error}");
    // Without tensors there is nothing that could be missing, the padding included.
    let bytes = GgufWriter::new("llama").key("k", text("abc")).finish();
    assert!(parse_header(&bytes[..bytes.len() - 1], Path::new("x.gguf")).is_ok());
}

#[test]
fn types_of_other_engines_keep_their_names() {
    for (id, name, elements, bytes) in
        [(7, "Q5_1", 32, 24), (17, "IQ2_XS", 256, 74), (40, "NVFP4", 64, 36), (28, "F64", 1, 8)]
    {
        let writer = GgufWriter::new("llama").tensor("t", &[elements], id, &vec![0; bytes]);
        let tensor = &parse(&writer).unwrap().tensors[0];
        assert_eq!(tensor.storage, Storage::Unsupported(name.into()));
        assert_eq!(tensor.range.len(), bytes);
    }
}
