use super::*;
use crate::ops::{
    InstructionSet,
    cpu::panel::tests::{DTYPES, Random, backend, random_weights, view},
    embedding,
    tensors::F32View,
    vector,
};
use proptest::prelude::*;

fn reason(dtype: WeightDtype, shape: &[usize], data: &[u8]) -> String {
    let tensor = TensorView { name: "blk.0.weight", dtype, shape: shape.to_vec(), data };
    let backend = backend(1, InstructionSet::Portable);
    PackedMatrix::pack(&backend, &tensor).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn refuses_shapes_that_the_data_does_not_have() {
    let data = [0; 68];
    assert_eq!(
        reason(WeightDtype::Q8_0, &[2, 48], &data),
        "tensor blk.0.weight: Q8_0 of shape [2, 48]: rows of 48 elements are not whole blocks of 32"
    );
    assert!(reason(WeightDtype::Q8_0, &[2, 64], &data).ends_with("expected 136 bytes, found 68"));
    assert!(reason(WeightDtype::Q8_0, &[64], &data).ends_with("a matrix has 2 dimensions, found 1"));
    assert!(reason(WeightDtype::Q8_0, &[0, 32], &data).ends_with("at least one row and one column"));
    assert!(
        reason(WeightDtype::F32, &[usize::MAX / 2, 8], &data)
            .ends_with("the shape overflows, found 68 bytes")
    );
    assert!(
        reason(WeightDtype::F32, &[1, usize::MAX], &data).ends_with("the shape overflows, found 68 bytes")
    );
    assert!(
        reason(WeightDtype::Q6K, &[usize::MAX, 256], &data).ends_with("the shape overflows, found 68 bytes")
    );
}

proptest! {
    #[test]
    fn any_shape_and_bytes_pack_or_are_refused(
        dtype in prop::sample::select(DTYPES.to_vec()),
        shape in prop::collection::vec(prop_oneof![0usize..70, Just(256), any::<usize>()], 0..4),
        data in prop::collection::vec(any::<u8>(), 0..700),
    ) {
        let tensor = TensorView { name: "any", dtype, shape, data: &data };
        if let Ok(packed) = PackedMatrix::pack(&backend(1, InstructionSet::Portable), &tensor) {
            prop_assert!(packed.out_features() * packed.in_features() > 0);
        }
    }
}

#[test]
fn embedding_names_the_id_that_is_out_of_range() {
    let backend = backend(1, InstructionSet::Portable);
    let data = random_weights(WeightDtype::Q8_0, 20, 32, &mut Random(1));
    let table = PackedMatrix::pack(&backend, &view(WeightDtype::Q8_0, 20, 32, &data)).unwrap();
    let error = embedding(&backend, &table, &[3, 20]).unwrap_err();
    assert_eq!(error.to_string(), "ids[1] = 20 is out of range: must be below 20");
}

#[test]
fn vectors_add_their_offset() {
    let backend = backend(1, InstructionSet::Portable);
    let data: Vec<u8> =
        [0.5f32, -1.0, 3.0].iter().flat_map(|element| half::bf16::from_f32(*element).to_le_bytes()).collect();
    let tensor = TensorView { name: "norm.weight", dtype: WeightDtype::Bf16, shape: vec![3], data: &data };
    let elements =
        |offset| F32View::of(&vector(&backend, &tensor, offset).unwrap(), "vector").unwrap().to_vec();
    assert_eq!(elements(0.0), [0.5, -1.0, 3.0]);
    assert_eq!(elements(1.0), [1.5, 0.0, 4.0]);
    let matrix = TensorView { shape: vec![1, 3], ..tensor.clone() };
    assert!(matches!(vector(&backend, &matrix, 0.0), Err(OpError::WeightData { .. })));
}
