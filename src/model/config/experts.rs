//! [`ExpertSettings`]: a mixture of experts in the place of the feed-forward block.

/// The mixture of experts of a decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpertSettings {
    /// Experts a layer.
    pub num_experts: usize,
    /// Experts that each token goes to.
    pub num_experts_per_token: usize,
    /// Width of one expert.
    pub intermediate_size: usize,
    /// Whether the weights of a token's experts add up to 1.
    pub normalises_weights: bool,
    /// Whether each layer has experts; the others have a plain feed-forward block.
    pub sparse_layers: Vec<bool>,
}

impl ExpertSettings {
    /// Whether this layer has experts.
    pub fn has_layer(&self, layer: usize) -> bool {
        self.sparse_layers.get(layer).copied().unwrap_or(false)
    }

    /// Multiply-adds of router and chosen experts for one token, by element of the residual stream.
    pub(super) fn weights_per_token(&self) -> usize {
        self.num_experts + 3 * self.num_experts_per_token * self.intermediate_size
    }

    /// The field that cannot be, in the names of HF configs, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let sizes = [("num_experts", self.num_experts), ("moe_intermediate_size", self.intermediate_size)];
        for (field, size) in sizes {
            if size == 0 || size > 1 << 30 {
                return Some((field, format!("{size} is not a size a model can have")));
            }
        }
        let per_token = self.num_experts_per_token;
        if per_token == 0 || per_token > self.num_experts {
            let reason = format!("{per_token} of {} experts", self.num_experts);
            return Some(("num_experts_per_tok", reason));
        }
        None
    }
}
