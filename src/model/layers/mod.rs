//! Layers that the families share.

mod attention;
mod context;
mod decoder;
mod experts;
mod feed_forward;
mod gated_delta_net;
mod linear;
mod loader;
mod mixer;
mod mlp;
mod norm;
mod pre_norm_block;
mod sandwich_block;

pub use attention::Attention;
pub use context::{ForwardContext, Rows, StepQueries};
pub use decoder::{Block, Decoder};
pub use experts::{Expert, ExpertMlp};
pub use feed_forward::FeedForward;
pub use gated_delta_net::GatedDeltaNet;
pub use linear::Linear;
pub use loader::{LayerLoader, WeightPlacement};
pub use mlp::GatedMlp;
pub use norm::RmsNorm;
pub use pre_norm_block::PreNormBlock;
pub use sandwich_block::SandwichBlock;
