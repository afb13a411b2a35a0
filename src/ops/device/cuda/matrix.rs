//! Weight matrices that candle multiplies by.
use super::CudaPlace;
use crate::{
    ops::OpError,
    weights::{TensorView, WeightDtype},
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

/// Candle's name of a storage type.
enum Storage {
    Float(DType),
    Quantised(GgmlDType),
}

fn storage(dtype: WeightDtype) -> Option<Storage> {
    Some(match dtype {
        WeightDtype::F32 => Storage::Float(DType::F32),
        WeightDtype::F16 => Storage::Float(DType::F16),
        WeightDtype::Bf16 => Storage::Float(DType::BF16),
        WeightDtype::Q4_0 => Storage::Quantised(GgmlDType::Q4_0),
        WeightDtype::Q4_1 => Storage::Quantised(GgmlDType::Q4_1),
        WeightDtype::Q5_0 => Storage::Quantised(GgmlDType::Q5_0),
        WeightDtype::Q8_0 => Storage::Quantised(GgmlDType::Q8_0),
        WeightDtype::Q4K => Storage::Quantised(GgmlDType::Q4K),
        WeightDtype::Q5K => Storage::Quantised(GgmlDType::Q5K),
        WeightDtype::Q6K => Storage::Quantised(GgmlDType::Q6K),
        WeightDtype::Mxfp4 => return None,
    })
}

impl CudaMatrix {
    /// Copies a `[out, in]` tensor, whose data are checked, over.
    ///
    /// # Errors
    /// [`OpError::NotOnDevice`] for MXFP4; [`OpError::Candle`].
    pub(in crate::ops) fn new(place: &CudaPlace, tensor: &TensorView<'_>) -> Result<Self, OpError> {
        let device = Device::Cuda(place.device.clone());
        let storage = storage(tensor.dtype);
        let storage =
            storage.ok_or(OpError::NotOnDevice { operation: "a product with MXFP4", device: "cuda" })?;
        let weight = match storage {
            Storage::Float(dtype) => {
                Weight::Float(Tensor::from_raw_buffer(tensor.data, dtype, &tensor.shape, &device)?)
            }
            Storage::Quantised(dtype) => {
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

    /// `x w^T + bias`, `x: [rows, in]` in f32. Half-precision weights take `x` rounded to their type.
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
