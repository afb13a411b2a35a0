use super::*;
use crate::ops::{
    InstructionSet,
    cpu::panel::tests::{DTYPES, Random, backend, random_weights, view},
};
use crate::weights::WeightDtype;

#[test]
fn rows_of_the_file_are_those_of_the_packed_matrix() {
    let backend = backend(2, InstructionSet::Portable);
    let (rows, columns) = (19, 768);
    // Out of order, one twice, and more than a panel holds.
    let ids: Vec<u32> = [18, 0, 7, 7, 3].into_iter().chain(0..19).collect();
    for dtype in DTYPES {
        let data = random_weights(dtype, rows, columns, &mut Random(5));
        let table = MappedMatrix::of_bytes(&data, dtype, [rows, columns]);
        assert_eq!(table.file_bytes(), data.len());
        let packed = PackedMatrix::pack(&backend, &view(dtype, rows, columns, &data)).unwrap();
        let whole = embedding(&backend, &packed, &ids).unwrap();
        // A part of a part too.
        let narrow = table.narrow(256..768).unwrap().narrow(256..512).unwrap();
        for (table, from) in [(table, 0), (narrow, 512)] {
            let expected = whole.narrow(1, from, table.columns()).unwrap();
            let found = mapped_embedding(&backend, &table, &ids).unwrap();
            assert_eq!(found.dims(), [ids.len(), table.columns()]);
            assert_eq!(found.to_vec2::<f32>().unwrap(), expected.to_vec2::<f32>().unwrap(), "{dtype:?}");
        }
    }
}

#[test]
fn no_ids_give_no_rows() {
    let table = MappedMatrix::of_bytes(&[0; 64], WeightDtype::F32, [2, 8]);
    let found = mapped_embedding(&backend(1, InstructionSet::Portable), &table, &[]).unwrap();
    assert_eq!(found.dims(), [0, 8]);
}

#[test]
fn what_is_not_there_is_refused_with_the_numbers() {
    let table = MappedMatrix::of_bytes(&[0; 18 * 4], WeightDtype::Q4_0, [2, 64]);
    let error = mapped_embedding(&backend(1, InstructionSet::Portable), &table, &[1, 2]).unwrap_err();
    assert_eq!(error.to_string(), "ids[1] = 2 is out of range: must be below 2");
    let refusal = |columns| table.narrow(columns).map(|_| ()).unwrap_err().to_string();
    assert!(
        refusal(0..48).ends_with("has rows of 48 elements, not a multiple of its block of 32"),
        "{}",
        refusal(0..48)
    );
    assert!(refusal(32..96).contains("[2, 96]"), "{}", refusal(32..96));
}
