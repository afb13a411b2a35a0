//! What kernel tests share: numbers, element types, and how an error is judged.
#![allow(dead_code)]
pub mod attention;
pub mod device;
pub mod pairs;

use device::{Memory, Order};
use half::{bf16, f16};
use longwick_kernels::{Element, Slots, Stream, View};

/// An activation's type.
pub trait Float: Element + PartialEq + std::fmt::Debug {
    /// Rounds.
    fn of(x: f32) -> Self;
    /// Exactly.
    fn f32(self) -> f32;
    /// Its bits.
    fn bits(self) -> u32;
}

impl Float for f32 {
    fn of(x: f32) -> Self {
        x
    }
    fn f32(self) -> f32 {
        self
    }
    fn bits(self) -> u32 {
        self.to_bits()
    }
}
impl Float for bf16 {
    fn of(x: f32) -> Self {
        Self::from_f32(x)
    }
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }
}
impl Float for f16 {
    fn of(x: f32) -> Self {
        Self::from_f32(x)
    }
    fn f32(self) -> f32 {
        self.to_f32()
    }
    fn bits(self) -> u32 {
        u32::from(self.to_bits())
    }
}

/// Numbers from a seed: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Roughly normal, by the sum of four uniforms.
    pub fn normal(&mut self) -> f32 {
        let sum: f64 = (0..4).map(|_| (self.next() >> 11) as f64 / (1u64 << 53) as f64).sum();
        ((sum - 2.0) * 1.732) as f32
    }

    pub fn elements<T: Float>(&mut self, count: usize, scale: f32) -> Vec<T> {
        (0..count).map(|_| T::of(self.normal() * scale)).collect()
    }
}

/// Memory of the device under test with these elements; on the emulator, guarded.
pub fn guarded<T: Element>(elements: &[T]) -> Memory {
    Memory::copy_of(elements)
}

/// Memory for so many elements, filled with NaN, so that an element left unwritten shows.
pub fn unwritten<T: Float>(count: usize) -> Memory {
    guarded(&vec![T::of(f32::NAN); count])
}

/// Slots, and the device's copy of them.
pub fn slots<'a>(host: &'a [u64], device: &'a Memory) -> Slots<'a> {
    // SAFETY: both borrows last until the launch is done, and nothing writes to them meanwhile.
    unsafe { Slots::copied(host, View::on_host(device.elements::<u64>())) }
}

/// Runs in every order; the results must agree bit for bit.
pub fn in_every_order<T: Float>(run: impl Fn(&mut Stream) -> Vec<T>) -> Vec<T> {
    let mut results = Order::ALL.map(|order| run(&mut device::stream(order))).into_iter();
    let first = results.next().expect("an order");
    for other in results {
        assert!(first.iter().map(|x| x.bits()).eq(other.iter().map(|x| x.bits())), "orders disagree");
    }
    first
}

/// The error against float64 may be at most twice that of the plain implementation in the same precision.
pub fn check_error<T: Float>(what: &str, found: &[T], plain: &[T], oracle: &[f64]) {
    assert_eq!(found.len(), oracle.len(), "{what}");
    let worst = |results: &[T]| {
        let errors = results.iter().zip(oracle).map(|(x, exact)| (f64::from(x.f32()) - exact).abs());
        errors.fold(0.0, |worst: f64, error| if error.is_nan() { f64::INFINITY } else { worst.max(error) })
    };
    let (kernel, allowed) = (worst(found), 2.0 * worst(plain));
    assert!(kernel <= allowed, "{what}: error {kernel:e}, allowed {allowed:e}");
}

/// E4M3 by its definition, in another way than the kernel's.
pub fn fp8_value(code: u8) -> f64 {
    let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
    let magnitude = match exponent {
        0 => mantissa / 8.0 * 2f64.powi(-6),
        _ => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
    };
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}
