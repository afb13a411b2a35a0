//! Memory that kernels read and write, beside candle's tensors.
use super::{DeviceBackend, Place};
use crate::ops::{OpError, StepList};
#[cfg(feature = "cuda")]
use candle_core::cuda::cudarc::driver::CudaSlice;
use longwick_kernels::{Element, View, ViewMut};
use std::marker::PhantomData;

/// Words a 16-byte step: lists start on such, since kernels move 16 bytes at once.
const STEP_WORDS: usize = 4;

/// 32-bit words where kernels reach them.
pub(in crate::ops) enum DeviceMemory {
    /// In sixteens of bytes, for their alignment.
    #[cfg(feature = "emu")]
    Host(Vec<u128>),
    #[cfg(feature = "cuda")]
    Cuda(CudaSlice<u32>),
}

impl DeviceMemory {
    fn address(&self) -> u64 {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(quads) => quads.as_ptr() as u64,
            #[cfg(feature = "cuda")]
            Self::Cuda(words) => super::cuda::address(words),
        }
    }

    fn words(&self) -> usize {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(quads) => quads.len() * STEP_WORDS,
            #[cfg(feature = "cuda")]
            Self::Cuda(words) => words.len(),
        }
    }

    /// A list that [`Parcel::add`] gave this place.
    ///
    /// # Panics
    /// When the place is another parcel's and ends past this one.
    pub(in crate::ops) fn view<T: Element>(&self, place: Packed<T>) -> View<'_> {
        assert!(place.word + place.words() <= self.words(), "a list of another parcel");
        // SAFETY: the words are there as long as `self`, which nothing writes; every bit pattern is an element.
        unsafe { View::from_raw(self.address() + 4 * place.word as u64, place.len, T::DTYPE) }
    }

    /// All of it as `len` floats, to be written.
    pub(super) fn floats_mut(&mut self, len: usize) -> ViewMut<'_> {
        assert!(len <= self.words(), "{len} floats of {} words", self.words());
        // SAFETY: the words are there as long as `self`, which is exclusively borrowed.
        unsafe { ViewMut::from_raw(self.address(), len, longwick_kernels::Dtype::F32) }
    }
}

/// Where a list lies in a parcel.
#[derive(Debug)]
pub(in crate::ops) struct Packed<T> {
    word: usize,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Packed<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Packed<T> {}

impl<T> Packed<T> {
    fn words(&self) -> usize {
        self.len * size_of::<T>() / size_of::<u32>()
    }
}

/// An element of lists that go over to a device.
pub(in crate::ops) trait Packable: Element {
    /// Appends a list as words, the lower of an element first.
    fn pack(list: &[Self], words: &mut Vec<u32>);
}

impl Packable for u32 {
    fn pack(list: &[Self], words: &mut Vec<u32>) {
        words.extend_from_slice(list);
    }
}

impl Packable for u64 {
    fn pack(list: &[Self], words: &mut Vec<u32>) {
        words.extend(list.iter().flat_map(|&element| [element as u32, (element >> 32) as u32]));
    }
}

impl Packable for f32 {
    fn pack(list: &[Self], words: &mut Vec<u32>) {
        words.extend(list.iter().map(|element| element.to_bits()));
    }
}

/// Lists that go over to the device in one copy.
#[derive(Default)]
pub(super) struct Parcel {
    words: Vec<u32>,
}

impl Parcel {
    /// Adds a list, and says where it will lie.
    pub(super) fn add<T: Packable>(&mut self, list: &[T]) -> Packed<T> {
        self.words.resize(self.words.len().next_multiple_of(STEP_WORDS), 0);
        let place = Packed { word: self.words.len(), len: list.len(), element: PhantomData };
        T::pack(list, &mut self.words);
        place
    }

    /// Copies all lists over.
    pub(super) fn send(self, device: &DeviceBackend) -> Result<DeviceMemory, OpError> {
        match &device.place {
            #[cfg(feature = "emu")]
            Place::Emu => {
                let quad = |words: &[u32]| {
                    let mut bytes = [0; 16];
                    for (bytes, word) in bytes.chunks_exact_mut(4).zip(words) {
                        bytes.copy_from_slice(&word.to_ne_bytes());
                    }
                    u128::from_ne_bytes(bytes)
                };
                Ok(DeviceMemory::Host(self.words.chunks(STEP_WORDS).map(quad).collect()))
            }
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => place.send(&self.words).map(DeviceMemory::Cuda),
        }
    }
}

/// A list where kernels read it.
pub(super) enum Listed<'a, T> {
    /// Within the step's copy.
    Copied(View<'a>),
    /// In a copy of its own.
    Own(DeviceMemory, Packed<T>),
}

impl<'a, T: Packable> Listed<'a, T> {
    /// Copies what the step's copy does not hold.
    ///
    /// # Errors
    /// [`OpError::Driver`].
    pub(super) fn of(device: &DeviceBackend, list: StepList<'a, T>) -> Result<Self, OpError> {
        if let Some(view) = list.copied {
            return Ok(Self::Copied(view));
        }
        let mut parcel = Parcel::default();
        let place = parcel.add(list.host);
        Ok(Self::Own(parcel.send(device)?, place))
    }

    /// As kernels see it.
    pub(super) fn view(&self) -> View<'_> {
        match self {
            Self::Copied(view) => *view,
            Self::Own(memory, place) => memory.view(*place),
        }
    }
}

impl DeviceBackend {
    /// Room for `len` floats.
    pub(super) fn floats(&self, len: usize) -> Result<DeviceMemory, OpError> {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => Ok(DeviceMemory::Host(vec![0; len.div_ceil(STEP_WORDS)])),
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => place.allocate(len).map(DeviceMemory::Cuda),
        }
    }
}
