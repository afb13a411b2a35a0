use super::*;
use float8::F8E4M3;

/// Runs an operation over whole slices of test values.
struct Table {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Kernel for Table {
    type Output = Vec<u32>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Vec<u32> {
        let mut out = Vec::new();
        let mut push = |value: L::F| out.extend(l.to_array(value).map(canonical));
        for (x, y) in self.x.chunks(LANES).zip(self.y.chunks(LANES)) {
            let (x, y) = (l.load_first(x, 1.0), l.load_first(y, 2.0));
            let z = l.sub(l.mul(x, y), l.div(y, x));
            for value in
                [l.add(x, y), l.fma(x, y, z), l.neg_fma(x, y, z), l.max(x, y), l.min(x, y), l.exp(x), z]
            {
                push(value);
            }
            let bits = l.to_bits(x);
            for int in [
                l.add_int(bits, l.splat_int(i32::MAX)),
                l.sub_int(bits, l.to_bits(y)),
                l.and_int(bits, l.to_bits(y)),
                l.or_int(bits, l.to_bits(y)),
                l.shl_int(bits, 3),
                l.sar_int(bits, 7),
            ] {
                push(l.to_float(int));
                push(l.from_bits(l.max_int(int, bits)));
                push(l.from_bits(l.add_pairs(int, bits)));
                push(l.from_bits(l.add_pairs_where(int, 0xa5c3_39f0, bits)));
                push(l.to_float(l.dot_pairs(int, halved(l, int), halved(l, bits))));
                push(l.splat(l.reduce_max_int(int) as f32));
                push(l.from_bits(stored(l, int)));
                push(l.from_bits(int));
            }
            let array = l.to_array(x);
            // SAFETY: the array's 64 bytes hold 16 half floats and 32 bytes.
            unsafe {
                push(l.load_f16(array.as_ptr().cast()));
                push(l.load_bf16(array.as_ptr().cast()));
                push(l.load_f8_e4m3(array.as_ptr().cast()));
                push(l.to_float(l.load_i8(array.as_ptr().cast())));
                push(l.to_float(l.load_u8(array.as_ptr().cast())));
                push(l.to_float(l.load_i8_pairs(array.as_ptr().cast())));
                push(l.to_float(l.look_up_nibbles(array.as_ptr().cast(), &TABLE)));
            }
            push(l.splat(l.reduce_add(x)));
            push(l.splat(l.reduce_max(x)));
        }
        out
    }
}

/// Both ends of a signed byte, and what lies between.
const TABLE: [i8; 16] = [0, 1, -1, 2, -2, 127, -128, 5, 77, -77, 12, -12, 100, -100, 64, -64];

/// Halves small enough for the sum of two products to fit.
#[inline(always)]
fn halved<L: Lanes>(l: L, a: L::I) -> L::I {
    l.and_int(a, l.splat_pair(0x3fff))
}

/// Written as integers and as halves, and read again.
#[inline(always)]
fn stored<L: Lanes>(l: L, a: L::I) -> L::I {
    let mut ints = [0i32; LANES];
    let mut halves = [0i16; 2 * LANES];
    // SAFETY: the arrays hold 16 integers, and 16 halves twice.
    unsafe {
        l.store_int(ints.as_mut_ptr(), a);
        l.store_low_halves(halves.as_mut_ptr(), a);
        l.store_low_halves(halves[LANES..].as_mut_ptr(), l.load_int(ints.as_ptr()));
        l.load_int(halves.as_ptr().cast())
    }
}

/// NaNs compare equal whatever their payload: no kernel reads one.
fn canonical(value: f32) -> u32 {
    if value.is_nan() { f32::NAN.to_bits() } else { value.to_bits() }
}

fn values() -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        88.7,
        88.8,
        -87.3,
        -103.9,
        -104.1,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        1e-40,
    ];
    let mut state = 1u32;
    let random = (0..4096).map(move |i| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let unit = (state >> 8) as f32 / 16_777_216.0;
        if i % 2 == 0 { (unit - 0.5) * 220.0 } else { f32::from_bits(state) }
    });
    special.into_iter().chain(random).collect()
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    let x = values();
    let y: Vec<_> = x.iter().rev().copied().collect();
    let table = || Table { x: x.clone(), y: y.clone() };
    let expected = dispatch(InstructionSet::Portable, table());
    for set in InstructionSet::available() {
        let found = dispatch(set, table());
        let differing = expected.iter().zip(&found).position(|(a, b)| a != b);
        assert_eq!(differing, None, "{set:?}");
    }
}

struct Fp8<'a>(&'a [u8]);

impl Kernel for Fp8<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Vec<f32> {
        let sixteen = self.0.as_chunks::<LANES>().0;
        // SAFETY: each chunk has 16 bytes.
        sixteen.iter().flat_map(|codes| l.to_array(unsafe { l.load_f8_e4m3(codes.as_ptr()) })).collect()
    }
}

#[test]
fn every_code_of_fp8_is_read_as_its_number() {
    let codes: Vec<u8> = (0..=255).collect();
    for set in InstructionSet::available() {
        for (code, found) in codes.iter().zip(dispatch(set, Fp8(&codes))) {
            let expected = match code {
                0x7f => 480.0,
                0xff => -480.0,
                _ => F8E4M3::from_bits(*code).to_f32(),
            };
            assert_eq!(found.to_bits(), expected.to_bits(), "{set:?}, {code:#x}");
        }
    }
}

struct Exp<'a>(&'a [f32]);

impl Kernel for Exp<'_> {
    type Output = Vec<f32>;

    #[inline(always)]
    fn run<L: Lanes>(self, l: L) -> Vec<f32> {
        self.0
            .chunks(LANES)
            .flat_map(|x| l.to_array(l.exp(l.load_first(x, 0.0))))
            .take(self.0.len())
            .collect()
    }
}

#[test]
fn exp_is_within_two_units_of_the_float64_value() {
    let x: Vec<f32> = (0..200_000).map(|i| -104.0 + i as f32 * (193.0 / 200_000.0)).collect();
    let mut worst = 0.0f64;
    for (x, found) in x.iter().zip(dispatch(InstructionSet::available()[0], Exp(&x))) {
        let exact = f64::from(*x).exp();
        if exact > f64::from(f32::MAX) {
            assert!(found == f32::INFINITY || found == f32::MAX, "exp({x}) = {found}");
            continue;
        }
        let unit = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
        worst = worst.max((f64::from(found) - exact).abs() / unit);
    }
    assert!(worst <= 2.0, "{worst} units in the last place");
}

#[test]
fn exp_at_the_ends() {
    let x = [f32::NEG_INFINITY, -1e30, -104.1, 0.0, 89.0, f32::INFINITY, f32::NAN];
    let found = dispatch(InstructionSet::available()[0], Exp(&x));
    assert_eq!(found[..6], [0.0, 0.0, 0.0, 1.0, f32::INFINITY, f32::INFINITY]);
    assert!(found[..3].iter().all(|zero| zero.is_sign_positive()));
    assert!(found[6].is_nan());
}
