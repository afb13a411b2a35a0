//! Weight matrices that candle multiplies by.
use super::CudaPlace;
use crate::{
    ops::{OpError, ggml::ggml_dtype},
    weights::TensorView,
};
use candle_core::{
    DType, Device, Module, Tensor,
    quantized::{GgmlDType, QMatMul, QStorage, QTensor},
};
use std::borrow::Cow;

/// A weight matrix on the device, in the file's elements.
pub(in crate::ops) struct CudaMatrix {
    weight: Weight,
    device: Device,
    bytes: usize,
}

enum Weight {
    /// `[out, in]`.
    Float(Tensor),
    Quantised(QMatMul),
}

impl CudaMatrix {
    /// Copies a `[out, in]` tensor, whose data are checked, over.
    ///
    /// # Errors
    /// [`OpError::NotOnDevice`] for MXFP4; [`OpError::Candle`].
    pub(in crate::ops) fn new(place: &CudaPlace, tensor: &TensorView<'_>) -> Result<Self, OpError> {
        let device = Device::Cuda(place.device.clone());
        let float = |dtype| Tensor::from_raw_buffer(tensor.data, dtype, &tensor.shape, &device);
        let mxfp4 = OpError::NotOnDevice { operation: "a product with MXFP4", device: "cuda" };
        let weight = match ggml_dtype(tensor.dtype).ok_or(mxfp4)? {
            GgmlDType::F32 => Weight::Float(float(DType::F32)?),
            GgmlDType::F16 => Weight::Float(float(DType::F16)?),
            GgmlDType::BF16 => Weight::Float(float(DType::BF16)?),
            dtype => {
                let data = QStorage::from_data(Cow::Borrowed(tensor.data), &device, dtype)?;
                Weight::Quantised(QMatMul::from_qtensor(QTensor::new(data, tensor.shape.as_slice())?)?)
            }
        };
        Ok(Self { weight, device, bytes: tensor.data.len() })
    }

    /// Bytes on the device.
    pub(in crate::ops) fn bytes(&self) -> usize {
        self.bytes
    }

    /// `x w^T + bias`, `x: [rows, in]` in f32. Half-precision weights take `x` rounded to their type, quantised ones to 8 bits
    /// (candle's q8_1).
    pub(in crate::ops) fn linear(&self, x: &Tensor, bias: Option<&Tensor>) -> Result<Tensor, OpError> {
        let product = match &self.weight {
            Weight::Float(weight) => {
                x.to_dtype(weight.dtype())?.matmul(&weight.t()?)?.to_dtype(DType::F32)?
            }
            Weight::Quantised(weight) => weight.forward(x)?,
        };
        Ok(match bias {
            Some(bias) => product.broadcast_add(bias)?,
            None => product,
        })
    }

    /// Rows of the matrix in f32; every id is one of its rows.
    pub(in crate::ops) fn embedding(&self, ids: &[u32]) -> Result<Tensor, OpError> {
        let ids = Tensor::new(ids, &self.device)?;
        Ok(match &self.weight {
            Weight::Float(weight) => weight.index_select(&ids, 0)?.to_dtype(DType::F32)?,
            Weight::Quantised(weight) => weight.embedding(&ids)?.to_dtype(DType::F32)?,
        })
    }
}
