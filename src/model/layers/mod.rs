//! Layers that the families share.

mod attention;
mod context;
mod decoder;
mod gated_delta_net;
mod loader;
mod mlp;
mod norm;
mod pre_norm_block;

pub use attention::Attention;
pub use context::{ForwardContext, Rows};
pub use decoder::{Block, Decoder};
pub use gated_delta_net::GatedDeltaNet;
pub use loader::LayerLoader;
pub use mlp::GatedMlp;
pub use norm::RmsNorm;
pub use pre_norm_block::PreNormBlock;
