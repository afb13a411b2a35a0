//! Candle's names of storage types.
use crate::weights::WeightDtype;
use candle_core::quantized::GgmlDType;

/// Candle's name of a storage type; `None` for MXFP4, which it does not have.
pub(super) fn ggml_dtype(dtype: WeightDtype) -> Option<GgmlDType> {
    Some(match dtype {
        WeightDtype::F32 => GgmlDType::F32,
        WeightDtype::F16 => GgmlDType::F16,
        WeightDtype::Bf16 => GgmlDType::BF16,
        WeightDtype::Q4_0 => GgmlDType::Q4_0,
        WeightDtype::Q4_1 => GgmlDType::Q4_1,
        WeightDtype::Q5_0 => GgmlDType::Q5_0,
        WeightDtype::Q8_0 => GgmlDType::Q8_0,
        WeightDtype::Q4K => GgmlDType::Q4K,
        WeightDtype::Q5K => GgmlDType::Q5K,
        WeightDtype::Q6K => GgmlDType::Q6K,
        WeightDtype::Mxfp4 => return None,
    })
}
