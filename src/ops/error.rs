//! What operations refuse.

/// What an operation can refuse.
#[derive(Debug, thiserror::Error)]
pub enum OpError {
    /// An argument's shape does not fit the operation.
    #[error("{argument}: expected {expected}, found shape {found:?}")]
    Shape {
        /// The argument's name.
        argument: &'static str,
        /// What the operation takes, with numbers.
        expected: String,
        /// The shape that came.
        found: Vec<usize>,
    },
    /// A tensor's element type is not the one the operation takes.
    #[error("{argument}: expected elements of type {expected}, found {found}")]
    UnsupportedDtype {
        /// The argument's (or the file tensor's) name.
        argument: String,
        /// What the operation takes.
        expected: &'static str,
        /// What came.
        found: String,
    },
    /// A tensor's elements do not lie one after another in row-major order.
    #[error("{argument}: the tensor of shape {found:?} is not contiguous")]
    NotContiguous {
        /// The argument's name.
        argument: &'static str,
        /// The shape that came.
        found: Vec<usize>,
    },
    /// A tensor lives on another device than the backend.
    #[error("{argument}: the tensor does not live on the backend's device")]
    Device {
        /// The argument's name.
        argument: &'static str,
    },
    /// An index points outside of what it indexes.
    #[error("{argument}[{position}] = {index} is out of range: must be below {limit}")]
    Index {
        /// The argument's name.
        argument: &'static str,
        /// Where in the argument the index stands.
        position: usize,
        /// The index.
        index: u64,
        /// The first index that is out of range.
        limit: u64,
    },
    /// A number is outside of what the operation takes.
    #[error("{argument} = {found}: must be {expected}")]
    Value {
        /// The argument's name.
        argument: &'static str,
        /// What the operation takes.
        expected: String,
        /// What came.
        found: String,
    },
    /// A file tensor cannot be packed: its shape and dtype ask for another number of bytes, or its rows are not whole blocks.
    #[error("tensor {name}: {dtype} of shape {shape:?}: {reason}")]
    WeightData {
        /// The tensor's name on disk.
        name: String,
        /// Its element storage.
        dtype: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The rule that is broken, with numbers.
        reason: String,
    },
    /// Memory could not be had.
    #[error("{what}: cannot reserve {bytes} bytes: {reason}")]
    Memory {
        /// What it was for.
        what: &'static str,
        /// How much.
        bytes: u64,
        /// The system's answer.
        reason: String,
    },
    /// The instruction set asked for is unknown or this processor lacks it.
    #[error("instruction set {requested:?} is not available; this processor has: {available}")]
    InstructionSet {
        /// What was asked for.
        requested: String,
        /// What there is, best first.
        available: String,
    },
    /// Worker threads could not be started.
    #[error("cannot start {threads} worker threads: {reason}")]
    Threads {
        /// How many.
        threads: usize,
        /// The system's answer.
        reason: String,
    },
    /// The build has no such device.
    #[error("this build of longwick has no {device} device; {remedy}")]
    NoDevice {
        /// What was asked for.
        device: &'static str,
        /// How to get it.
        remedy: &'static str,
    },
    /// The operation has no kernel yet.
    #[error("{operation} does not run on {device} yet; it does on the CPU")]
    NotOnDevice {
        /// The operation, or the kind of layer.
        operation: &'static str,
        /// The device.
        device: &'static str,
    },
    /// The driver, or a library beside it, refused.
    #[error("CUDA device {ordinal}: {reason}")]
    Driver {
        /// The device's number.
        ordinal: usize,
        /// What the driver says.
        reason: String,
    },
    /// A kernel refused its arguments, or did not come to its end.
    #[cfg(feature = "kernels")]
    #[error(transparent)]
    Kernel(#[from] longwick_kernels::KernelError),
    /// Candle refused.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
}
