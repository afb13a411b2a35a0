//! [`RecurrentSettings`]: which layers keep a state, and its shape.

use crate::ops::{RecurrentShape, StateLayout};

/// Layers that keep a state in the place of keys and values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecurrentSettings {
    /// Their shape.
    pub shape: RecurrentShape,
    /// Whether a layer is one of them.
    pub layers: Vec<bool>,
    /// Whether the files hold `-exp(A_log)` where HF checkpoints hold `A_log`.
    pub holds_decay_rates: bool,
}

impl RecurrentSettings {
    /// Whether this layer keeps a state.
    pub fn has_layer(&self, layer: usize) -> bool {
        self.layers.get(layer).copied().unwrap_or(false)
    }

    /// Output features of a layer's projections, those back to the residual stream counted by what they take in.
    pub(super) fn projected_features(&self) -> usize {
        let values = self.shape.value_heads * self.shape.value_dim;
        self.shape.channels() + 2 * values + 2 * self.shape.value_heads
    }

    /// The field that cannot work, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let fields = [
            ("key_heads", "linear_num_key_heads"),
            ("value_heads", "linear_num_value_heads"),
            ("key_dim", "linear_key_head_dim"),
            ("value_dim", "linear_value_head_dim"),
            ("conv_kernel", "linear_conv_kernel_dim"),
        ];
        let layers = self.layers.iter().filter(|&&is_recurrent| is_recurrent).count();
        if layers == self.layers.len() {
            return Some(("layer_types", format!("none of {layers} layers has attention")));
        }
        let checked = StateLayout { shape: self.shape, layers: layers.max(1) }.validate();
        let Err(crate::ops::OpError::Value { argument, expected, found }) = checked else { return None };
        let field =
            fields.iter().find(|(name, _)| *name == argument).map_or("layer_types", |(_, field)| field);
        Some((field, format!("{found} is not {expected}")))
    }
}
