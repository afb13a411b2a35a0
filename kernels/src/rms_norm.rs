//! Root-mean-square norm, with the residual sum before it.
use crate::{Dtype, KernelError, Stream, View, ViewMut, ffi, view::expect_float};

/// `out = weight * x / sqrt(mean(x^2) + epsilon)`, row by row.
///
/// With a residual the norm is of `x + residual`, rounded to the element type, which `sum` keeps for the next layer.
///
/// # Arithmetic
/// In f32. A row's bits depend on that row alone.
///
/// # Source
/// Zhang and Sennrich 2019.
pub struct RmsNorm<'a> {
    /// `[rows, dim]`, f32, bf16 or f16; `dim` is a multiple of 8.
    pub x: View<'a>,
    /// `residual` and `sum`, both as `x`.
    pub residual: Option<(View<'a>, ViewMut<'a>)>,
    /// `[dim]`, f32.
    pub weight: View<'a>,
    /// Added to the mean square.
    pub epsilon: f32,
    /// As `x`.
    pub out: ViewMut<'a>,
}

impl RmsNorm<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what the launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let dtype = expect_float("x", &self.x)?;
        let dim = self.weight.len();
        if dim == 0 || !dim.is_multiple_of(8) || !self.x.len().is_multiple_of(dim) {
            let expected = format!("a multiple of 8 that divides the {} elements of x", self.x.len());
            return Err(KernelError::value("weight", expected, dim));
        }
        let (residual, sum) = match &self.residual {
            None => (0, 0),
            Some((residual, sum)) => (
                residual.expect("residual", dtype, self.x.len())?,
                sum.as_view().expect("sum", dtype, self.x.len())?,
            ),
        };
        let params = ffi::RmsNormParams {
            x: self.x.expect_aligned("x")?,
            residual,
            weight: self.weight.expect("weight", Dtype::F32, dim)?,
            sum,
            out: self.out.as_view().expect("out", dtype, self.x.len())?,
            rows: ffi::count("rows", self.x.len() / dim)?,
            dim: ffi::count("dim", dim)?,
            epsilon: self.epsilon,
            dtype: dtype.code(),
        };
        // SAFETY: every pointer was checked to reach over the rows that the kernel touches.
        stream.submit("rms_norm", |raw| unsafe { ffi::longwick_rms_norm(&params, raw) })
    }
}
