//! What a step needs beside weights and caches.

use crate::engine::run::LOGIT_ROWS;
use crate::model::ModelConfig;
use crate::model::config::KvHeads;
use crate::ops::STATE_CHUNK;
use crate::ops::cpu::attention::{SPAN, SPLIT_FLOATS, thread_floats};

/// Output columns of weights that a thread widens at once: two panels of sixteen.
const WIDENED_COLUMNS: usize = 32;

/// An upper estimate of the bytes that a step of `rows` tokens needs at a context of `context` tokens, with so many threads:
/// the activations that live at once in the widest layer, what attention and the linear layers work in, and the logits of
/// the rows that are projected together.
pub(super) fn scratch_bytes(config: &ModelConfig, context: usize, rows: usize, threads: usize) -> usize {
    let layers = 0..config.num_layers();
    let widest = layers.clone().map(|layer| mixer(config, layer).max(feed_forward(config, layer)));
    let inputs = layers.map(|layer| widest_input(config, layer)).max().unwrap_or(0);
    // The residual stream and its embedding, and the rotary angles of two kinds of layers.
    let shared = 2 * config.hidden_size + config.rope.rotary_dim + config.rope_sliding.rotary_dim;
    // The linear layers keep their rows' copy from call to call.
    let activations = rows.saturating_mul(shared + widest.max().unwrap_or(0) + inputs);
    let logits = 2 * LOGIT_ROWS * config.vocab_size;
    let a_thread = (WIDENED_COLUMNS * inputs).max(in_a_thread(config));
    let in_threads = threads.saturating_mul(a_thread);
    let others = [logits, in_threads, partials(config, context)];
    let floats = others.into_iter().fold(activations, usize::saturating_add);
    floats.saturating_mul(size_of::<f32>())
}

/// Elements a row that live at once in attention, or in a recurrent layer.
fn mixer(config: &ModelConfig, layer: usize) -> usize {
    let hidden = config.hidden_size;
    if let Some(recurrent) = config.recurrent_layer(layer) {
        let values = recurrent.shape.value_heads * recurrent.shape.value_dim;
        // Before and after the convolution; then what was read, its gate, norm and product.
        return 2 * hidden + 2 * recurrent.shape.channels() + 4 * values + 2 * recurrent.shape.value_heads;
    }
    let KvHeads { kv_heads, head_dim } = config.kv_heads(layer);
    let (q, kv) = (config.num_heads * head_dim, kv_heads * head_dim);
    let gate = if config.attention_output_gate { 2 * q } else { 0 };
    // Projected, normalised, rotated; then what was attended.
    2 * hidden + (4 * kv).max(4 * q + gate)
}

/// Elements a row that live at once in the feed-forward block.
fn feed_forward(config: &ModelConfig, layer: usize) -> usize {
    let hidden = config.hidden_size;
    let inputs = config.gemma4.as_ref().and_then(|gemma4| gemma4.per_layer_inputs);
    let input = inputs.map_or(0, |inputs| 6 * inputs.size);
    let block = match config.experts.as_ref().filter(|experts| experts.has_layer(layer)) {
        // The chosen experts' outputs all live until they are added up.
        Some(experts) => {
            let chosen = experts.num_experts_per_token;
            2 * experts.num_experts + (chosen + 1) * hidden + 3 * experts.intermediate_size
        }
        None => 3 * config.layer_intermediate_size(layer),
    };
    3 * hidden + block.max(input)
}

/// The widest input of a layer's matrices.
fn widest_input(config: &ModelConfig, layer: usize) -> usize {
    let KvHeads { head_dim, .. } = config.kv_heads(layer);
    let attended = match config.recurrent_layer(layer) {
        Some(recurrent) => recurrent.shape.value_heads * recurrent.shape.value_dim,
        None => config.num_heads * head_dim,
    };
    let inner = match config.experts.as_ref().filter(|experts| experts.has_layer(layer)) {
        Some(experts) => experts.intermediate_size,
        None => config.layer_intermediate_size(layer),
    };
    config.hidden_size.max(attended).max(inner)
}

/// Floats that a thread works in, in attention or in a recurrent layer.
fn in_a_thread(config: &ModelConfig) -> usize {
    let head_dims = (0..config.num_layers()).map(|layer| config.kv_heads(layer).head_dim);
    let attention = thread_floats(head_dims.max().unwrap_or(0));
    let recurrent = config.recurrent.as_ref().map_or(0, |recurrent| {
        let values = recurrent.shape.value_dim.next_multiple_of(16);
        STATE_CHUNK * (3 * recurrent.shape.key_dim + 2 * STATE_CHUNK + 2 * values)
    });
    attention.max(recurrent)
}

/// Floats of the partial results of attention, where the spans of one token's keys are shared out over threads.
fn partials(config: &ModelConfig, context: usize) -> usize {
    let head_dims = (0..config.num_layers()).map(|layer| config.kv_heads(layer).head_dim);
    let row = head_dims.max().unwrap_or(0).next_multiple_of(16) + 2;
    let spans = context.div_ceil(SPAN);
    spans.saturating_mul(config.num_heads.next_power_of_two() * row).min(SPLIT_FLOATS)
}
