//! ggml's tensor types: id, name, block. Sizes of types we do not compute with are needed to check the file's layout.
use super::super::dtype::{Storage, WeightDtype};

pub(super) struct GgmlType {
    pub(super) storage: Storage,
    pub(super) block_elements: usize,
    pub(super) block_bytes: usize,
}

/// Looks a type id up. `None` for ids that ggml does not define, or whose layout is no longer known (`Q4_2`, `Q4_3`).
///
/// # Source
/// `enum ggml_type` and the block structs of ggml (MIT), read 2026-11.
pub(super) fn ggml_type(id: u32) -> Option<GgmlType> {
    let supported = match id {
        0 => WeightDtype::F32,
        1 => WeightDtype::F16,
        2 => WeightDtype::Q4_0,
        3 => WeightDtype::Q4_1,
        6 => WeightDtype::Q5_0,
        8 => WeightDtype::Q8_0,
        12 => WeightDtype::Q4K,
        13 => WeightDtype::Q5K,
        14 => WeightDtype::Q6K,
        30 => WeightDtype::Bf16,
        39 => WeightDtype::Mxfp4,
        _ => return unsupported(id),
    };
    Some(GgmlType {
        storage: Storage::Supported(supported),
        block_elements: supported.block_elements(),
        block_bytes: supported.block_bytes(),
    })
}

fn unsupported(id: u32) -> Option<GgmlType> {
    let (name, block_elements, block_bytes) = match id {
        7 => ("Q5_1", 32, 24),
        9 => ("Q8_1", 32, 36),
        10 => ("Q2_K", 256, 84),
        11 => ("Q3_K", 256, 110),
        15 => ("Q8_K", 256, 292),
        16 => ("IQ2_XXS", 256, 66),
        17 => ("IQ2_XS", 256, 74),
        18 => ("IQ3_XXS", 256, 98),
        19 => ("IQ1_S", 256, 50),
        20 => ("IQ4_NL", 32, 18),
        21 => ("IQ3_S", 256, 110),
        22 => ("IQ2_S", 256, 82),
        23 => ("IQ4_XS", 256, 136),
        24 => ("I8", 1, 1),
        25 => ("I16", 1, 2),
        26 => ("I32", 1, 4),
        27 => ("I64", 1, 8),
        28 => ("F64", 1, 8),
        29 => ("IQ1_M", 256, 56),
        31 => ("Q4_0_4_4", 32, 18),
        32 => ("Q4_0_4_8", 32, 18),
        33 => ("Q4_0_8_8", 32, 18),
        34 => ("TQ1_0", 256, 54),
        35 => ("TQ2_0", 256, 66),
        36 => ("IQ4_NL_4_4", 32, 18),
        37 => ("IQ4_NL_4_8", 32, 18),
        38 => ("IQ4_NL_8_8", 32, 18),
        40 => ("NVFP4", 64, 36),
        _ => return None,
    };
    Some(GgmlType { storage: Storage::Unsupported(name.into()), block_elements, block_bytes })
}
