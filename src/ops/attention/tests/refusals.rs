use super::*;
use crate::ops::testing::backends;
use candle_core::DType;

/// Runs a sound call after `change`.
fn changed(change: impl for<'a> Fn(&mut AttentionInput<'a>, &'a Spare)) -> Result<Tensor, OpError> {
    let backend = &backends()[0];
    let spare = Spare::new();
    let layout = Shape::default().layout();
    let arena = KvArena::new(backend, layout.page_bytes(), 4).unwrap();
    let sequences = [SequencePages { pages: &[3, 1], first_position: 0 }];
    let mut input = AttentionInput {
        q: &spare.q,
        cu_seqlens_q: &[0, 2],
        positions: &[18, 19],
        sequences: &sequences,
        arena: &arena,
        layout: &layout,
        layer_in_page: 0,
        scale: 1.0,
        window: None,
        sinks: None,
        soft_cap: None,
        prepared: None,
    };
    paged_attention(backend, &input).unwrap();
    change(&mut input, &spare);
    paged_attention(backend, &input)
}

fn refused(change: impl for<'a> Fn(&mut AttentionInput<'a>, &'a Spare)) -> OpError {
    changed(change).unwrap_err()
}

/// Arguments that do not fit.
struct Spare {
    q: Tensor,
    other_dim: Tensor,
    other_heads: Tensor,
    flat: Tensor,
    late: [SequencePages<'static>; 1],
    uneven: [SequencePages<'static>; 1],
    missing_page: [SequencePages<'static>; 1],
    layout: KvPageLayout,
}

impl Spare {
    fn new() -> Self {
        let ones = |shape: &[usize]| Tensor::ones(shape, DType::F32, &Device::Cpu).unwrap();
        let pages = |pages, first_position| [SequencePages { pages, first_position }];
        Self {
            q: ones(&[2, 4, 16]),
            other_dim: ones(&[2, 4, 8]),
            other_heads: ones(&[2, 3, 16]),
            flat: ones(&[2, 64]),
            late: pages(&[3, 1], 16),
            uneven: pages(&[3, 1], 8),
            missing_page: pages(&[3, 4], 0),
            layout: KvPageLayout { layers_per_page: 8, ..Shape::default().layout() },
        }
    }
}

#[test]
fn each_argument_that_does_not_fit_is_named() {
    let cases: [(&str, OpError); 15] = [
        ("q", refused(|input, spare| input.q = &spare.other_dim)),
        ("q", refused(|input, spare| input.q = &spare.other_heads)),
        ("q", refused(|input, spare| input.q = &spare.flat)),
        ("positions", refused(|input, _| input.positions = &[18])),
        ("positions", refused(|input, _| input.positions = &[19, 18])),
        ("positions", refused(|input, _| input.positions = &[18, 32])),
        ("cu_seqlens_q", refused(|input, _| input.cu_seqlens_q = &[0, 1])),
        ("cu_seqlens_q", refused(|input, _| input.cu_seqlens_q = &[0, 1, 2])),
        ("sinks", refused(|input, _| input.sinks = Some(&[1.0, 2.0]))),
        ("window", refused(|input, _| input.window = Some(0))),
        ("soft_cap", refused(|input, _| input.soft_cap = Some(0.0))),
        ("scale", refused(|input, _| input.scale = f32::NAN)),
        ("first_position", refused(|input, spare| input.sequences = &spare.late)),
        ("first_position", refused(|input, spare| input.sequences = &spare.uneven)),
        ("page_bytes", refused(|input, spare| input.layout = &spare.layout)),
    ];
    for (expected, error) in cases {
        let (OpError::Shape { argument, .. } | OpError::Value { argument, .. }) = error else {
            panic!("{expected}: {error}");
        };
        assert_eq!(argument, expected);
    }
    let missing = refused(|input, spare| input.sequences = &spare.missing_page);
    assert!(matches!(missing, OpError::Index { argument: "pages", position: 1, index: 4, limit: 4 }));
}

#[test]
fn a_window_that_has_left_the_first_block_lets_it_go() {
    changed(|input, spare| (input.sequences, input.window) = (&spare.late, Some(3))).unwrap();
    let reaches_back = refused(|input, spare| (input.sequences, input.window) = (&spare.late, Some(4)));
    assert!(matches!(reaches_back, OpError::Value { argument: "first_position", .. }));
}
