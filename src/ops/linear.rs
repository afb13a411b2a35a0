//! The linear layer.
mod fixed;
mod float;
mod pieces;

use super::{
    Backend, CpuBackend, InstructionSet, OpError, PackedMatrix,
    cpu::{
        linear_output::LinearOutput,
        panel::{Panels, with_format},
        simd,
        threads::SharedOutput,
    },
    tensors::{F32View, filled_by, from_elements, matrix_dims, require_shape},
};
use candle_core::Tensor;

/// `x w^T + bias`.
///
/// Every output element is one chain of fused multiply-adds in f32 over ascending k, from zero; then the bias is added. With float
/// weights, MXFP4 among them, the chain's links are single k. With other quantised weights, rows of `x` are first rounded to fixed-point numbers of sixteen
/// bits, with a power of two as scale every 32 elements, and the links are the weights' groups, within which integers add up
/// exactly. So an element's bits depend on its row of `x` alone: not on the other rows, nor on threads or instruction set.
///
/// # Shapes
/// * `x`: `[tokens, in]`
/// * `bias`: `[out]`
/// * returns `[tokens, out]`
///
/// # Errors
/// [`OpError::Shape`], [`OpError::UnsupportedDtype`], [`OpError::NotContiguous`] or [`OpError::Device`] names the argument.
pub fn linear(
    backend: &Backend,
    x: &Tensor,
    weight: &PackedMatrix,
    bias: Option<&Tensor>,
) -> Result<Tensor, OpError> {
    let cpu = backend.host();
    let (rows, in_features) = matrix_dims(x, "x")?;
    if in_features != weight.in_features() {
        return Err(OpError::Shape {
            argument: "x",
            expected: format!("[tokens, {}]", weight.in_features()),
            found: x.dims().to_vec(),
        });
    }
    if let Some(bias) = bias {
        require_shape(bias, "bias", &[weight.out_features()])?;
    }
    #[cfg(feature = "cuda")]
    if let Some(matrix) = weight.on_cuda() {
        return matrix.linear(x, bias);
    }
    let panels = weight.panels()?;
    let bias = bias.map(|bias| F32View::of(bias, "bias")).transpose()?;
    let x = F32View::of(x, "x")?;
    // SAFETY: the panels cover all columns, and each panel's sums are stored for every row.
    let out = unsafe {
        filled_by(rows * weight.out_features(), |out| {
            let elements = &SharedOutput::new(out);
            let out = LinearOutput { elements, out_features: weight.out_features(), bias: bias.as_deref() };
            let call = Call { cpu, panels, in_features, out };
            if rows > 0 {
                with_format!(
                    call.panels.dtype,
                    float F => call.float::<F>(&x, rows),
                    integer F => call.fixed::<F>(&x, rows)
                );
            }
        })
    };
    from_elements(out, (rows, weight.out_features()))
}

/// One call's arguments.
struct Call<'a> {
    cpu: &'a CpuBackend,
    panels: Panels<'a>,
    in_features: usize,
    out: LinearOutput<'a>,
}

/// Vector registers of an instruction set, counted in lanes.
fn registers(instruction_set: InstructionSet) -> usize {
    struct Registers;
    impl simd::Kernel for Registers {
        type Output = usize;
        #[inline(always)]
        fn run<L: simd::Lanes>(self, _lanes: L) -> usize {
            L::REGISTERS
        }
    }
    simd::dispatch(instruction_set, Registers)
}

#[cfg(test)]
mod tests;
