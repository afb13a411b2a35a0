//! Damaged Parquet files: a typed error, never a panic and never memory by a false count.
use proptest::prelude::*;

use super::{fixture, scratch};
use crate::history::{thrift::*, *};

const FIXTURES: [&str; 3] = ["haystacks.parquet", "haystacks-v2.parquet", "instances.parquet"];

fn import_both_ways(bytes: &[u8]) {
    let (_folder, path) = scratch(bytes);
    for error in [import_path(&path, None).err(), load_haystacks(&path).err()].into_iter().flatten() {
        assert!(error.to_string().contains("history: "), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn truncated_parquet_never_panics(file in 0..FIXTURES.len(), keep in 0.0..1.0f64) {
        let mut bytes = std::fs::read(fixture(FIXTURES[file])).unwrap();
        bytes.truncate((bytes.len() as f64 * keep) as usize);
        import_both_ways(&bytes);
    }

    #[test]
    fn flipped_bits_in_parquet_never_panic(
        file in 0..FIXTURES.len(),
        flips in prop::collection::vec((0.0..1.0f64, 0..8u8), 1..4),
    ) {
        let mut bytes = std::fs::read(fixture(FIXTURES[file])).unwrap();
        for (place, bit) in flips {
            let index = (bytes.len() as f64 * place) as usize;
            bytes[index] ^= 1 << bit;
        }
        import_both_ways(&bytes);
    }

    #[test]
    fn any_footer_never_panics(footer in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = b"PAR1".to_vec();
        bytes.extend(&footer);
        bytes.extend((footer.len() as u32).to_le_bytes());
        bytes.extend(b"PAR1");
        import_both_ways(&bytes);
    }
}

#[test]
fn any_cut_is_an_error() {
    let bytes = std::fs::read(fixture("haystacks.parquet")).unwrap();
    for length in (0..bytes.len()).step_by(11) {
        let (_folder, path) = scratch(&bytes[..length]);
        assert!(load_haystacks(&path).is_err(), "cut at {length}");
    }
}

/// A Parquet file that is only a footer.
fn footer_only(footer: &[u8]) -> String {
    let mut bytes = b"PAR1".to_vec();
    bytes.extend(footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    let (_folder, path) = scratch(&bytes);
    import_path(&path, None).expect_err("damaged").to_string()
}

#[test]
fn hostile_counts_are_refused_before_memory_is_reserved() {
    // FileMetaData: field 1 version = 1, field 2 a list of schema elements.
    let version = [0x15, 0x02];
    // One element: field 4 name "x", field 5 num_children = 2^31 - 1.
    let mut children = version.to_vec();
    children.extend([0x19, 0x1c, 0x48, 0x01, b'x', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00, 0x00]);
    let message = footer_only(&children);
    assert!(message.contains("schema element 0 of 1 has 2147483647 children"), "{message}");
    // A list of 2^31 - 1 elements.
    let mut list = version.to_vec();
    list.extend([0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07]);
    let message = footer_only(&list);
    assert!(message.contains("a list of more than 1048576 elements"), "{message}");
    // A name of 2^40 bytes.
    let mut name = version.to_vec();
    name.extend([0x19, 0x1c, 0x48, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, b'x', 0x00, 0x00]);
    let message = footer_only(&name);
    assert!(message.contains("the footer is cut off"), "{message}");
    // A chain of 30 elements with one child each.
    let mut chain = version.to_vec();
    chain.extend([0x19, 0xfc, 30]);
    for _ in 0..30 {
        chain.extend([0x48, 0x01, b'x', 0x15, 0x02, 0x00]);
    }
    chain.push(0x00);
    let message = footer_only(&chain);
    assert!(message.contains("nests deeper than 24 levels"), "{message}");
}

#[test]
fn a_footer_longer_than_the_file_is_refused() {
    let (_folder, path) = scratch(b"PAR1\xff\xff\xff\x7fPAR1");
    let message = import_path(&path, None).unwrap_err().to_string();
    assert!(message.contains("the footer's length is 2147483647, the limit is 0"), "{message}");
}

/// Where a pattern stands in a file.
fn find(bytes: &[u8], pattern: &[u8]) -> usize {
    bytes.windows(pattern.len()).position(|window| window == pattern).unwrap()
}

#[test]
fn a_page_of_false_size_is_refused() {
    let mut bytes = std::fs::read(fixture("haystacks-v2.parquet")).unwrap();
    // The first page's header: field 1 type 3 (data page v2), field 2 the uncompressed size.
    let header = find(&bytes, &[0x15, 0x06, 0x15]);
    assert_eq!(header, 4);
    // The size's varint has one byte; bit 7 makes it run on into the next field.
    bytes[header + 3] |= 0x80;
    let (_folder, path) = scratch(&bytes);
    let message = load_haystacks(&path).unwrap_err().to_string();
    assert!(message.contains("row group 0, column haystack_id: "), "{message}");
}

#[test]
fn a_table_of_something_else_is_refused_by_its_columns() {
    use parquet::file::writer::SerializedFileWriter;
    let schema = "message table { required int32 price; required int32 weight; }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let mut bytes = Vec::new();
    let writer = SerializedFileWriter::new(&mut bytes, schema.into(), Default::default()).unwrap();
    writer.close().unwrap();
    let (_folder, path) = scratch(&bytes);
    let message = import_path(&path, None).unwrap_err().to_string();
    assert!(message.contains("no column of a supported format; it has [price, weight]"), "{message}");
}

struct Ignore;

impl Visit for Ignore {
    fn begin_struct(&mut self, _path: &[i16]) {}
    fn integer(&mut self, _path: &[i16], _value: i64) {}
}

#[test]
fn the_walk_stops_at_impossible_bytes() {
    let cases: [(&[u8], Result<usize, WalkError>); 6] = [
        (&[0x00, 0x99], Ok(1)),
        (&[], Err(WalkError::Truncated)),
        (&[0x18, 0x02, b'a', b'b', 0x00], Ok(5)),
        // The length takes the stop byte with it.
        (&[0x18, 0x03, b'a', b'b', 0x00], Err(WalkError::Truncated)),
        (&[0x18, 0x04, b'a', b'b', 0x00], Err(WalkError::Truncated)),
        (&[0x1f, 0x00], Err(WalkError::Damaged("an unknown field type"))),
    ];
    for (index, (bytes, expected)) in cases.into_iter().enumerate() {
        assert_eq!(walk(bytes, &mut Ignore), expected, "case {index}");
    }
    let nested = [0x1c; 40];
    assert_eq!(walk(&nested, &mut Ignore), Err(WalkError::Damaged("structs nest too deep")));
}
