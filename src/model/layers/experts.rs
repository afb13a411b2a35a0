//! [`ExpertMlp`]: each token goes through a few of many gated blocks.

use super::{LayerLoader, Linear};
use crate::model::{Activation, ExpertSettings, ModelError};
use crate::ops::{self, Backend};
use candle_core::Tensor;

/// One gated block.
pub struct Expert {
    /// `[intermediate, hidden]`.
    pub gate: Linear,
    /// `[intermediate, hidden]`.
    pub up: Linear,
    /// `[hidden, intermediate]`.
    pub down: Linear,
}

/// A router and its experts.
pub struct ExpertMlp {
    router: Linear,
    experts: Vec<Expert>,
    hidden_size: usize,
    num_experts_per_token: usize,
    normalises_weights: bool,
    activation: Activation,
}

impl ExpertMlp {
    /// Joins what a family loaded; its settings are those of the loader's config.
    pub fn new(
        loader: &LayerLoader<'_>,
        settings: &ExpertSettings,
        router: Linear,
        experts: Vec<Expert>,
    ) -> Self {
        Self {
            router,
            experts,
            hidden_size: loader.config.hidden_size,
            num_experts_per_token: settings.num_experts_per_token,
            normalises_weights: settings.normalises_weights,
            activation: loader.config.activation,
        }
    }

    /// `x: [rows, hidden]` to `[rows, hidden]`. Only experts that a row chose are computed, each for all its rows at once;
    /// a row's result depends on neither the other rows nor their choices.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        let logits = self.router.forward(backend, x)?;
        let routing = ops::route(backend, &logits, self.num_experts_per_token, self.normalises_weights)?;
        let outputs = routing
            .groups()
            .iter()
            .map(|group| {
                let expert = &self.experts[group.expert];
                let x = ops::select_rows(backend, x, &group.rows)?;
                let (gate, up) = (expert.gate.forward(backend, &x)?, expert.up.forward(backend, &x)?);
                expert.down.forward(backend, &self.activation.gate(backend, &gate, &up)?)
            })
            .collect::<Result<Vec<_>, ModelError>>()?;
        Ok(ops::weighted_sum(backend, &routing, &outputs, self.hidden_size)?)
    }
}
