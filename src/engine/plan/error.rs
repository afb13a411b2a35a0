//! [`PlanError`].

use crate::engine::EngineError;
use crate::kv::KvError;
use crate::model::ModelError;
use crate::ops::OpError;
use crate::weights::WeightsError;

/// Why no memory plan was made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The context asked for is longer than the model takes.
    #[error("{model}: {asked} tokens are past its context of {limit}; {}", offer(extensions))]
    ContextPastLimit {
        /// The model.
        model: String,
        /// Tokens asked for.
        asked: usize,
        /// Tokens that it takes, with the extension that was named where one was.
        limit: usize,
        /// Documented ways to a longer context: their names, and the tokens that the model takes then.
        extensions: Vec<(String, u64)>,
    },
    /// The model has no such extension.
    #[error("{model}: no rope extension {name:?} is documented; {}", offer(extensions))]
    UnknownRopeExtension {
        /// The model.
        model: String,
        /// What was asked for.
        name: String,
        /// As in [`Self::ContextPastLimit`].
        extensions: Vec<(String, u64)>,
    },
    /// The manifest does not say how the weights are stored.
    #[error("{model}: its manifest has no [weights], so that their size is not known")]
    NoWeights {
        /// The model.
        model: String,
    },
    /// An encoder has no context to plan for.
    #[error("{model}: an encoder ({family}) keeps nothing from token to token; only decoders are planned")]
    Encoder {
        /// The model.
        model: String,
        /// Its family.
        family: String,
    },
    /// From the engine's settings.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// From the model's config or tensors.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// From the cache's plan.
    #[error(transparent)]
    Kv(#[from] KvError),
    /// From the files.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// From the backend.
    #[error(transparent)]
    Op(#[from] OpError),
}

fn offer(extensions: &[(String, u64)]) -> String {
    if extensions.is_empty() {
        return "no rope extension to more is documented".to_owned();
    }
    let named: Vec<String> =
        extensions.iter().map(|(name, context)| format!("{name} ({context} tokens)")).collect();
    format!("documented with --rope-extension: {}", named.join(", "))
}
