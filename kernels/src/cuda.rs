//! The kernels on a CUDA device, through the driver.
use crate::KernelError;
use cudarc::driver::{CudaContext, CudaStream, result, sys};
use std::{
    collections::HashMap,
    ffi::{CStr, CString, c_char, c_void},
    sync::{Arc, Mutex, PoisonError},
};

// The compiled kernels, `FATBINS: &[(&str, &[u8])]`: for every architecture we name, and as PTX for others.
include!(concat!(env!("OUT_DIR"), "/fatbins.rs"));

/// The architectures that kernels were compiled for, `80,86,..`; others take the PTX of the first or the last.
pub const ARCHITECTURES: &str = env!("LONGWICK_KERNEL_ARCHITECTURES");

/// Dynamic shared memory that a kernel may use without asking.
const UNASKED_SHARED_BYTES: u32 = 48 << 10;

/// The kernels, loaded onto one device.
pub struct CudaKernels {
    context: Arc<CudaContext>,
    modules: Vec<sys::CUmodule>,
    /// Those that were launched before, and the most shared memory that each may ask for.
    functions: Mutex<HashMap<CString, (sys::CUfunction, u32)>>,
}

// SAFETY: modules and functions are the driver's handles, which any thread with the context bound may use.
unsafe impl Send for CudaKernels {}
// SAFETY: as above; the map has its own lock.
unsafe impl Sync for CudaKernels {}

impl CudaKernels {
    /// Loads the kernels onto the context's device.
    ///
    /// # Errors
    /// [`KernelError::Launch`] says what the driver has against it: usually an architecture older than sm_80.
    pub fn load(context: &Arc<CudaContext>) -> Result<Self, KernelError> {
        let mut kernels =
            Self { context: Arc::clone(context), modules: Vec::new(), functions: Mutex::new(HashMap::new()) };
        context.bind_to_thread().map_err(|error| driver_error("load", &error))?;
        for (name, image) in FATBINS {
            // SAFETY: the image is a fatbin that nvcc wrote.
            let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
            let refuse =
                |error| KernelError::Launch { operation: "load", message: format!("{name}: {error}") };
            kernels.modules.push(module.map_err(refuse)?);
        }
        Ok(kernels)
    }

    /// The kernel of that name, allowed as much shared memory as it will ask for.
    fn function(&self, name: &CStr, shared_bytes: u32) -> Result<sys::CUfunction, String> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = functions.get(name).copied();
        let (function, allowed) = match known {
            Some(known) => known,
            None => (self.find(name)?, UNASKED_SHARED_BYTES),
        };
        if shared_bytes > allowed {
            let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let bytes = i32::try_from(shared_bytes).map_err(|error| error.to_string())?;
            // SAFETY: the function is one of the loaded modules'.
            unsafe { result::function::set_function_attribute(function, attribute, bytes) }
                .map_err(|error| format!("{name:?} with {bytes} bytes of shared memory: {error}"))?;
        }
        if known.is_none() || shared_bytes > allowed {
            functions.insert(name.to_owned(), (function, allowed.max(shared_bytes)));
        }
        Ok(function)
    }

    fn find(&self, name: &CStr) -> Result<sys::CUfunction, String> {
        // SAFETY: the modules are loaded and stay so as long as `self`.
        let find = |&module: &_| unsafe { result::module::get_function(module, name.to_owned()) }.ok();
        self.modules.iter().find_map(find).ok_or_else(|| format!("no kernel {name:?} in the fatbins"))
    }
}

impl Drop for CudaKernels {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_err() {
            return;
        }
        for module in self.modules.drain(..) {
            // SAFETY: loaded by `load`, and no launch can follow. A failure leaves a module loaded until the context ends.
            let _ = unsafe { result::module::unload(module) };
        }
    }
}

/// What a CUDA stream carries through the launchers.
pub(crate) struct CudaPlace {
    kernels: Arc<CudaKernels>,
    stream: Arc<CudaStream>,
    pub(crate) message: String,
}

impl CudaPlace {
    pub(crate) fn new(kernels: Arc<CudaKernels>, stream: Arc<CudaStream>) -> Self {
        Self { kernels, stream, message: String::new() }
    }

    fn launch(&self, launch: &RawLaunch) -> Result<(), String> {
        // SAFETY: launchers name kernels by string literals.
        let name = unsafe { CStr::from_ptr(launch.kernel) };
        self.kernels.context.bind_to_thread().map_err(|error| error.to_string())?;
        let function = self.kernels.function(name, launch.shared_bytes)?;
        let [x, y, z] = launch.grid;
        let mut params = [launch.params.cast_mut()];
        // SAFETY: the function takes one parameter struct by value, to which `params` points; the driver copies it before it returns.
        unsafe {
            result::launch_kernel(
                function,
                (x, y, z),
                (launch.threads, 1, 1),
                launch.shared_bytes,
                self.stream.cu_stream(),
                &mut params,
            )
        }
        .map_err(|error| format!("{name:?}: {error}"))
    }
}

/// `LongwickLaunch`.
#[repr(C)]
struct RawLaunch {
    kernel: *const c_char,
    body: *const c_void,
    grid: [u32; 3],
    threads: u32,
    shared_bytes: u32,
    params: *const c_void,
    params_bytes: usize,
}

/// What launchers call. `context` is a [`CudaPlace`].
pub(crate) unsafe extern "C" fn launch(context: *mut c_void, launch: *const c_void) -> i32 {
    // SAFETY: `Stream::submit` passes the place, exclusively borrowed, and launchers pass a `LongwickLaunch`.
    let (place, launch) = unsafe { (&mut *context.cast::<CudaPlace>(), &*launch.cast::<RawLaunch>()) };
    match place.launch(launch) {
        Ok(()) => crate::ffi::STATUS_OK,
        Err(message) => {
            place.message = message;
            crate::ffi::STATUS_LAUNCH_FAILED
        }
    }
}

fn driver_error(operation: &'static str, error: &result::DriverError) -> KernelError {
    KernelError::Launch { operation, message: error.to_string() }
}
