//! Rotary position embedding, optionally after a norm over each head.
use crate::{Dtype, KernelError, Stream, View, ViewMut, ffi, view::expect_float};

/// Tabulates cos and sin of `f32(position) * inverse_frequency`, times the attention factor: `[tokens, pairs]` each.
///
/// Linear, YaRN and proportional scaling differ in the inverse frequencies and the factor alone; a partial rotation has fewer pairs.
pub struct RopeAngles<'a> {
    /// `[tokens]`, u32.
    pub positions: View<'a>,
    /// `[pairs]`, f32.
    pub inverse_frequencies: View<'a>,
    /// Multiplies cos and sin; 1 but for YaRN.
    pub attention_factor: f32,
    /// `[tokens, pairs]`, f32.
    pub cosines: ViewMut<'a>,
    /// `[tokens, pairs]`, f32.
    pub sines: ViewMut<'a>,
}

impl RopeAngles<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what the launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let (tokens, pairs) = (self.positions.len(), self.inverse_frequencies.len());
        if pairs == 0 {
            return Err(KernelError::value("inverse_frequencies", "at least one", 0));
        }
        let params = ffi::RopeAnglesParams {
            positions: self.positions.expect("positions", Dtype::U32, tokens)?,
            inverse_frequencies: self.inverse_frequencies.expect("inverse_frequencies", Dtype::F32, pairs)?,
            cosines: self.cosines.as_view().expect("cosines", Dtype::F32, tokens * pairs)?,
            sines: self.sines.as_view().expect("sines", Dtype::F32, tokens * pairs)?,
            tokens: ffi::count("positions", tokens)?,
            pairs: ffi::count("inverse_frequencies", pairs)?,
            attention_factor: self.attention_factor,
            reserved: 0,
        };
        // SAFETY: every pointer was checked to reach over the elements that the kernel touches.
        stream.submit("rope_angles", |raw| unsafe { ffi::longwick_rope_angles(&params, raw) })
    }
}

/// Norm before the rotation, over each head.
#[derive(Debug, Clone, Copy)]
pub struct HeadNorm<'a> {
    /// `[head_dim]`, f32.
    pub weight: View<'a>,
    /// Added to the mean square.
    pub epsilon: f32,
}

/// How the pairs that turn lie in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Element i turns with i + pairs.
    HalfRotation,
    /// Element 2i turns with 2i + 1.
    Interleaved,
}

/// Rotates the pairs (a, b) of each head to `a cos - b sin` and `b cos + a sin`; elements past 2 pairs pass through.
///
/// # Arithmetic
/// In f32: each product and sum rounded; one rounding to the element type at the end, the norm included.
///
/// # Source
/// Su et al. 2021, RoFormer.
pub struct Rope<'a> {
    /// `[tokens, heads, head_dim]`, f32, bf16 or f16; `head_dim` is a multiple of 8, at most 512.
    pub x: View<'a>,
    /// Heads a token.
    pub heads: usize,
    /// Elements a head.
    pub head_dim: usize,
    /// Over each head, first.
    pub norm: Option<HeadNorm<'a>>,
    /// `[tokens, pairs]`, f32.
    pub cosines: View<'a>,
    /// `[tokens, pairs]`, f32.
    pub sines: View<'a>,
    /// Which elements are a pair.
    pub layout: RopeLayout,
    /// As `x`.
    pub out: ViewMut<'a>,
}

impl Rope<'_> {
    /// # Errors
    /// [`KernelError`] names the argument that does not fit, or what the launch ran into.
    pub fn launch(self, stream: &mut Stream) -> Result<(), KernelError> {
        let dtype = expect_float("x", &self.x)?;
        let row = self.heads * self.head_dim;
        if row == 0 || !self.x.len().is_multiple_of(row) {
            let expected = format!("whole tokens of {} heads of {}", self.heads, self.head_dim);
            return Err(KernelError::value("x", expected, self.x.len()));
        }
        let tokens = self.x.len() / row;
        let pairs = self.cosines.len().checked_div(tokens).unwrap_or(1);
        if pairs == 0 || 2 * pairs > self.head_dim {
            let expected = format!("1 to {} pairs for each of {tokens} tokens", self.head_dim / 2);
            return Err(KernelError::value("cosines", expected, self.cosines.len()));
        }
        let (norm_weight, epsilon) = match &self.norm {
            None => (0, 0.0),
            Some(norm) => (norm.weight.expect("norm.weight", Dtype::F32, self.head_dim)?, norm.epsilon),
        };
        let params = ffi::RopeParams {
            x: self.x.expect_aligned("x")?,
            norm_weight,
            cosines: self.cosines.expect("cosines", Dtype::F32, tokens * pairs)?,
            sines: self.sines.expect("sines", Dtype::F32, tokens * pairs)?,
            out: self.out.as_view().expect("out", dtype, self.x.len())?,
            tokens: ffi::count("tokens", tokens)?,
            heads: ffi::count("heads", self.heads)?,
            head_dim: ffi::count("head_dim", self.head_dim)?,
            pairs: ffi::count("pairs", pairs)?,
            epsilon,
            dtype: dtype.code(),
            layout: match self.layout {
                RopeLayout::HalfRotation => 0,
                RopeLayout::Interleaved => 1,
            },
            reserved: 0,
        };
        // SAFETY: every pointer was checked to reach over the elements that the kernel touches.
        stream.submit("rope", |raw| unsafe { ffi::longwick_rope(&params, raw) })
    }
}
