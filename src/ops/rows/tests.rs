use super::*;
use crate::ops::testing::backends;
use candle_core::Device;

#[test]
fn rows_come_in_the_order_named() {
    let x = Tensor::from_vec((0..12).map(|x| x as f32).collect::<Vec<_>>(), (4, 3), &Device::Cpu).unwrap();
    let picked = select_rows(&backends()[0], &x, &[3, 0, 3]).unwrap();
    assert_eq!(picked.to_vec2::<f32>().unwrap(), [[9.0, 10.0, 11.0], [0.0, 1.0, 2.0], [9.0, 10.0, 11.0]]);
    assert_eq!(select_rows(&backends()[0], &x, &[]).unwrap().dims(), [0, 3]);
}

#[test]
fn a_row_that_is_not_there_is_refused() {
    let x = Tensor::from_vec(vec![0.0_f32; 6], (2, 3), &Device::Cpu).unwrap();
    let refused = select_rows(&backends()[0], &x, &[1, 2]);
    assert!(matches!(refused, Err(OpError::Index { argument: "rows", position: 1, index: 2, limit: 2 })));
    let flat = x.flatten_all().unwrap();
    assert!(matches!(select_rows(&backends()[0], &flat, &[0]), Err(OpError::Shape { .. })));
}
