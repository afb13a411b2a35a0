//! Gated activations of the feed-forward layers.
use crate::{KernelError, Stream, View, ViewMut, ffi, view::expect_float};

/// What becomes of the gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `gate * sigmoid(gate) * up`.
    Silu,
    /// GELU of the gate by its tanh form, times `up`.
    GeluTanh,
    /// `(up + 1) * gate * sigmoid(alpha * gate)`, the gate clamped to at most `limit` and `up` to `-limit..=limit` (gpt-oss).
    ClampedSwiglu {
        /// Sharpens the sigmoid.
        alpha: f32,
        /// Clamps.
        limit: f32,
    },
}

/// `out = activation(gate) * up`, element by element, in f32 with one rounding at the end.
pub struct Gated<'a> {
    /// Rows of `dim` elements, `row_stride` apart; f32, bf16 or f16.
    pub gate: View<'a>,
    /// Likewise. Gate and up may lie side by side in one tensor.
    pub up: View<'a>,
    /// Elements from one row to the next: a multiple of 8.
    pub row_stride: usize,
    /// Elements a row: a multiple of 8.
    pub dim: usize,
    /// Which.
    pub activation: Activation,
    /// `[rows, dim]`.
    pub out: ViewMut<'a>,
}

impl Gated<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what the launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let dtype = expect_float("gate", &self.gate)?;
        let out = self.out.as_view();
        if self.dim == 0 || !self.dim.is_multiple_of(8) || !out.len().is_multiple_of(self.dim) {
            let expected = format!("a multiple of 8 that divides the {} elements of out", out.len());
            return Err(KernelError::value("dim", expected, self.dim));
        }
        if self.row_stride < self.dim || !self.row_stride.is_multiple_of(8) {
            let expected = format!("a multiple of 8, at least {}", self.dim);
            return Err(KernelError::value("row_stride", expected, self.row_stride));
        }
        let rows = out.len() / self.dim;
        let needed = rows.checked_sub(1).map_or(0, |before| before * self.row_stride + self.dim);
        for (argument, view) in [("gate", &self.gate), ("up", &self.up)] {
            if view.len() < needed {
                return Err(KernelError::Length { argument, expected: needed, found: view.len() });
            }
        }
        let (activation, alpha, limit) = match self.activation {
            Activation::Silu => (0, 0.0, 0.0),
            Activation::GeluTanh => (1, 0.0, 0.0),
            Activation::ClampedSwiglu { alpha, limit } => (2, alpha, limit),
        };
        let params = ffi::GatedParams {
            gate: self.gate.expect_aligned("gate")?,
            up: self.up.expect("up", dtype, self.up.len())?,
            out: out.expect("out", dtype, out.len())?,
            row_stride: self.row_stride as i64,
            rows: ffi::count("rows", rows)?,
            dim: ffi::count("dim", self.dim)?,
            activation,
            alpha,
            limit,
            dtype: dtype.code(),
        };
        // SAFETY: every pointer was checked to reach over the rows that the kernel touches.
        stream.submit("gated", |raw| unsafe { ffi::longwick_gated(&params, raw) })
    }
}
