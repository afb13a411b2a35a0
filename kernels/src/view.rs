//! Borrowed memory that a kernel reads or writes.
#[cfg(launchers)]
use crate::KernelError;
use half::{bf16, f16};
use std::{fmt, marker::PhantomData};

/// Element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// 4 bytes.
    F32,
    /// 2 bytes: 8 exponent bits, 7 mantissa bits.
    Bf16,
    /// 2 bytes: 5 exponent bits, 10 mantissa bits.
    F16,
    /// 1 byte: 4 exponent bits, 3 mantissa bits, no infinity (OCP E4M3), held as `u8`.
    Fp8E4m3,
    /// Unsigned integers of 4 bytes: positions, block tables.
    U32,
    /// Unsigned integers of 8 bytes: slots.
    U64,
}

impl Dtype {
    /// Bytes an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::Fp8E4m3 => 1,
            Self::Bf16 | Self::F16 => 2,
            Self::F32 | Self::U32 => 4,
            Self::U64 => 8,
        }
    }

    /// The number by which launchers know it; integers never reach one.
    #[cfg(launchers)]
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Bf16 => 1,
            Self::F16 => 2,
            Self::Fp8E4m3 => 3,
            Self::U32 | Self::U64 => u32::MAX,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Fp8E4m3 => "fp8 e4m3",
            Self::U32 => "u32",
            Self::U64 => "u64",
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that kernels know.
pub trait Element: Copy + sealed::Sealed + 'static {
    /// Its name here.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {
        $(impl sealed::Sealed for $rust {}
        impl Element for $rust {
            const DTYPE: Dtype = Dtype::$dtype;
        })*
    };
}
elements!(f32 => F32, bf16 => Bf16, f16 => F16, u8 => Fp8E4m3, u32 => U32, u64 => U64);

/// Memory that a kernel reads.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    address: u64,
    len: usize,
    dtype: Dtype,
    borrowed: PhantomData<&'a [u8]>,
}

/// Memory that a kernel writes.
#[derive(Debug)]
pub struct ViewMut<'a> {
    view: View<'a>,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> View<'a> {
    /// Host memory, for a stream of the emulator.
    pub fn on_host<T: Element>(elements: &'a [T]) -> Self {
        // SAFETY: the borrow keeps the memory for 'a.
        unsafe { Self::from_raw(elements.as_ptr() as u64, elements.len(), T::DTYPE) }
    }

    /// `len` elements at an address of the stream's device.
    ///
    /// # Safety
    /// For 'a, a stream that gets the view must be able to read that memory, and nothing may write it but work queued earlier on
    /// that stream.
    pub unsafe fn from_raw(address: u64, len: usize, dtype: Dtype) -> Self {
        Self { address, len, dtype, borrowed: PhantomData }
    }

    /// Where it begins.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Checks type, length and, since kernels move 16 bytes at a time, the address.
    #[cfg(launchers)]
    pub(crate) fn expect(
        &self,
        argument: &'static str,
        dtype: Dtype,
        len: usize,
    ) -> Result<u64, KernelError> {
        if self.dtype != dtype {
            return Err(KernelError::Dtype { argument, expected: dtype.to_string(), found: self.dtype });
        }
        if self.len != len {
            return Err(KernelError::Length { argument, expected: len, found: self.len });
        }
        self.expect_aligned(argument)
    }

    #[cfg(launchers)]
    pub(crate) fn expect_aligned(&self, argument: &'static str) -> Result<u64, KernelError> {
        let scalars = matches!(self.dtype, Dtype::U32 | Dtype::U64);
        if !scalars && !self.is_empty() && !self.address.is_multiple_of(16) {
            return Err(KernelError::Alignment { argument, address: self.address });
        }
        Ok(self.address)
    }
}

impl<'a> ViewMut<'a> {
    /// Host memory, for a stream of the emulator.
    pub fn on_host<T: Element>(elements: &'a mut [T]) -> Self {
        // SAFETY: the exclusive borrow keeps the memory for 'a.
        unsafe { Self::from_raw(elements.as_mut_ptr() as u64, elements.len(), T::DTYPE) }
    }

    /// `len` elements at an address of the stream's device.
    ///
    /// # Safety
    /// For 'a, a stream that gets the view must be able to read and write that memory, and nothing else may touch it but work queued
    /// earlier on that stream.
    pub unsafe fn from_raw(address: u64, len: usize, dtype: Dtype) -> Self {
        // SAFETY: passed on to the caller.
        Self { view: unsafe { View::from_raw(address, len, dtype) }, borrowed: PhantomData }
    }

    /// The same memory, to be read.
    pub fn as_view(&self) -> View<'_> {
        self.view
    }
}

/// The type of an activation: f32, bf16 or f16.
#[cfg(launchers)]
pub(crate) fn expect_float(argument: &'static str, view: &View<'_>) -> Result<Dtype, KernelError> {
    match view.dtype {
        Dtype::F32 | Dtype::Bf16 | Dtype::F16 => Ok(view.dtype),
        found => Err(KernelError::Dtype { argument, expected: "f32, bf16 or f16".to_owned(), found }),
    }
}
