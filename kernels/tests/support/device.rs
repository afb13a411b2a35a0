//! Where tests run: on the emulator, or with `LONGWICK_KERNEL_DEVICE=cuda` (feature `cuda`) on a GPU, in memory that host and
//! device both see, so that one test body serves both.
use longwick_kernels::{Element, Stream};

/// In which order threads run, where that can be chosen.
#[cfg(feature = "emu")]
pub use longwick_kernels::emu::Order;

/// On a GPU alone the order is the card's.
#[cfg(not(feature = "emu"))]
#[derive(Debug, Clone, Copy)]
pub enum Order {
    /// Whatever the card does.
    Forward,
}

#[cfg(not(feature = "emu"))]
impl Order {
    /// Three runs, which must agree.
    pub const ALL: [Self; 3] = [Self::Forward; 3];
}

/// Whether tests run on a GPU.
pub fn is_cuda() -> bool {
    let is_asked_for = std::env::var_os("LONGWICK_KERNEL_DEVICE").is_some_and(|name| name == "cuda");
    assert!(cfg!(feature = "cuda") || !is_asked_for, "these tests were built without the feature cuda");
    cfg!(feature = "cuda") && (cfg!(not(feature = "emu")) || is_asked_for)
}

/// A stream of the device under test.
pub fn stream(order: Order) -> Stream {
    #[cfg(feature = "cuda")]
    if is_cuda() {
        return gpu::stream();
    }
    on_emulator(order)
}

#[cfg(feature = "emu")]
fn on_emulator(order: Order) -> Stream {
    Stream::emu(order)
}

#[cfg(not(feature = "emu"))]
fn on_emulator(_: Order) -> Stream {
    unreachable!("without the emulator, tests run on a GPU")
}

/// Memory of the device under test, which the host reads and writes too.
pub enum Memory {
    #[cfg(feature = "emu")]
    Guarded(longwick_kernels::emu::GuardedMemory),
    #[cfg(feature = "cuda")]
    Managed(gpu::ManagedMemory),
}

impl Memory {
    /// Zeroed bytes.
    pub fn new(bytes: usize) -> Self {
        #[cfg(feature = "cuda")]
        if is_cuda() {
            return Self::Managed(gpu::ManagedMemory::new(bytes));
        }
        Self::guarded(bytes)
    }

    #[cfg(feature = "emu")]
    fn guarded(bytes: usize) -> Self {
        Self::Guarded(longwick_kernels::emu::GuardedMemory::new(bytes).expect("memory"))
    }

    #[cfg(not(feature = "emu"))]
    fn guarded(_: usize) -> Self {
        unreachable!("without the emulator, tests run on a GPU")
    }

    /// A copy of `elements`.
    pub fn copy_of<T: Element>(elements: &[T]) -> Self {
        let mut memory = Self::new(size_of_val(elements));
        memory.elements_mut::<T>()[..elements.len()].copy_from_slice(elements);
        memory
    }

    /// As elements, after all that was launched is done.
    pub fn elements<T: Element>(&self) -> &[T] {
        match self {
            #[cfg(feature = "emu")]
            Self::Guarded(memory) => memory.elements(),
            #[cfg(feature = "cuda")]
            Self::Managed(memory) => memory.elements(),
        }
    }

    /// As elements, to be written.
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        match self {
            #[cfg(feature = "emu")]
            Self::Guarded(memory) => memory.elements_mut(),
            #[cfg(feature = "cuda")]
            Self::Managed(memory) => memory.elements_mut(),
        }
    }
}

#[cfg(feature = "cuda")]
pub mod gpu {
    //! One context, one stream, and memory that migrates between host and device.
    use cudarc::driver::{CudaContext, CudaStream, result, sys};
    use longwick_kernels::{CudaKernels, Element, Stream};
    use std::sync::{Arc, OnceLock};

    struct Gpu {
        context: Arc<CudaContext>,
        stream: Arc<CudaStream>,
        kernels: Arc<CudaKernels>,
    }

    fn gpu() -> &'static Gpu {
        static GPU: OnceLock<Gpu> = OnceLock::new();
        GPU.get_or_init(|| {
            let context = CudaContext::new(0).expect("a CUDA device");
            let kernels = Arc::new(CudaKernels::load(&context).expect("the kernels load"));
            Gpu { stream: context.default_stream(), kernels, context }
        })
    }

    /// The one stream.
    pub fn stream() -> Stream {
        let gpu = gpu();
        // SAFETY: tests pass views of managed memory, and read or free it after waiting for the context.
        unsafe { Stream::cuda(gpu.kernels.clone(), gpu.stream.clone()) }
    }

    /// Waits for all launches.
    pub fn wait() {
        gpu().context.bind_to_thread().expect("the context");
        gpu().context.synchronize().expect("every launch succeeds");
    }

    /// Memory that host and device see at one address.
    pub struct ManagedMemory {
        address: u64,
        bytes: usize,
    }

    impl ManagedMemory {
        /// Zeroed bytes.
        pub fn new(bytes: usize) -> Self {
            wait();
            let flags = sys::CUmemAttach_flags_enum::CU_MEM_ATTACH_GLOBAL;
            // SAFETY: the context is bound; every size above zero may be asked for.
            let address = unsafe { result::malloc_managed(bytes.max(16), flags) }.expect("managed memory");
            // SAFETY: the driver zeroes through the pages it has just mapped.
            unsafe { result::memset_d8_sync(address, 0, bytes.max(16)) }.expect("managed memory is written");
            wait();
            Self { address, bytes }
        }

        /// As elements, after all launches.
        pub fn elements<T: Element>(&self) -> &[T] {
            wait();
            // SAFETY: the memory is the value's own, aligned to more than any element, and nothing runs on the device.
            unsafe { std::slice::from_raw_parts(self.address as *const T, self.bytes / size_of::<T>()) }
        }

        /// As elements, to be written.
        pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
            wait();
            // SAFETY: as above, and the borrow is exclusive.
            unsafe { std::slice::from_raw_parts_mut(self.address as *mut T, self.bytes / size_of::<T>()) }
        }
    }

    impl Drop for ManagedMemory {
        fn drop(&mut self) {
            wait();
            // SAFETY: the address came from the allocation, and no launch is under way.
            let _ = unsafe { result::memory_free(self.address) };
        }
    }
}
