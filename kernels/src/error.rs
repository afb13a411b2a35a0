//! Why a kernel did not run.
use crate::Dtype;

/// Why a kernel did not run, or did not finish.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum KernelError {
    /// An argument's elements are of another type.
    #[error("{argument}: expected elements of type {expected}, found {found:?}")]
    Dtype {
        /// Which argument.
        argument: &'static str,
        /// What it must be.
        expected: String,
        /// What it is.
        found: Dtype,
    },
    /// An argument holds another number of elements.
    #[error("{argument}: expected {expected} elements, found {found}")]
    Length {
        /// Which argument.
        argument: &'static str,
        /// The number that the shapes ask for.
        expected: usize,
        /// The number there is.
        found: usize,
    },
    /// A number breaks a rule.
    #[error("{argument}: expected {expected}, found {found}")]
    Value {
        /// Which argument.
        argument: &'static str,
        /// The rule.
        expected: String,
        /// The number.
        found: String,
    },
    /// An argument begins at an address that the kernel's vector accesses cannot use.
    #[error("{argument}: expected an address on 16 bytes, found {address:#x}")]
    Alignment {
        /// Which argument.
        argument: &'static str,
        /// Where it begins.
        address: u64,
    },
    /// No kernel was built for this combination.
    #[error("{operation}: no kernel for {what}")]
    Unsupported {
        /// Which operation.
        operation: &'static str,
        /// The dtype or head size.
        what: String,
    },
    /// The kernel did not start or did not end: what the driver or the emulator says.
    #[error("{operation}: {message}")]
    Launch {
        /// Which operation.
        operation: &'static str,
        /// The cause.
        message: String,
    },
}

#[cfg(launchers)]
impl KernelError {
    pub(crate) fn value(argument: &'static str, expected: impl Into<String>, found: impl ToString) -> Self {
        Self::Value { argument, expected: expected.into(), found: found.to_string() }
    }
}
