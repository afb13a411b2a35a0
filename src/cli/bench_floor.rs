//! The least time a card needs for a prefill of a dense model.

use super::CliError;
use super::bench_attention::{Kind, kinds, rotated, total};
use crate::model::ModelConfig;
use crate::ops::KvDtype;
use crate::ops::roofline::{Card, Cost, gated, linear, rms_norm_with_residual};

/// Seconds: the sum of what each product and each kernel needs at least, weights and activations in bf16, over all layers. The
/// vocabulary projection is left out, which a prefill does for one token.
///
/// # Errors
/// For a model with experts or recurrent layers, whose work is not counted.
pub(super) fn prefill_seconds(
    config: &ModelConfig,
    kv_dtype: KvDtype,
    (tokens, chunk): (usize, usize),
    card: &Card,
) -> Result<f64, CliError> {
    let has_recurrent = (0..config.num_layers()).any(|layer| config.recurrent_layer(layer).is_some());
    if config.experts.is_some() || has_recurrent {
        return Err("--card: the work of experts and of recurrent layers is not counted".into());
    }
    let floor = |cost: Cost| cost.floor(card).0;
    let chunks = || (0..tokens).step_by(chunk).map(|start| chunk.min(tokens - start));
    let layers: f64 = (0..config.num_layers())
        .map(|layer| {
            chunks().map(|rows| products(config, layer, rows).map(floor).iter().sum::<f64>()).sum::<f64>()
        })
        .sum();
    let all = kinds(config, config.num_layers(), kv_dtype);
    let of_kinds = |kinds: &[Kind], cost: &dyn Fn(&crate::ops::roofline::AttentionWork) -> Cost| {
        floor(total(kinds, cost).1)
    };
    let attention = of_kinds(&all, &|work| match kv_dtype {
        KvDtype::Bf16 | KvDtype::Fp8 => work.prefill(tokens, chunk),
        KvDtype::F32 => on_vector_units(work.prefill(tokens, chunk)),
    });
    let own = kinds(config, config.num_own_kv_layers(), kv_dtype);
    let around = of_kinds(&own, &|work| work.kv_write(tokens))
        + of_kinds(&all, &|work| work.rope(tokens, rotated(config, work)))
        + floor(
            rms_norm_with_residual(tokens, config.hidden_size, 2).repeated(2 * config.num_layers() as u64),
        );
    Ok(layers + attention + around)
}

/// The products of one layer with `rows` rows, and the activation between them.
fn products(config: &ModelConfig, layer: usize, rows: usize) -> [Cost; 7] {
    let (hidden, heads) = (config.hidden_size, config.kv_heads(layer));
    let (queries, keys) = (config.num_heads * heads.head_dim, heads.kv_heads * heads.head_dim);
    let width = config.layer_intermediate_size(layer);
    [
        linear(rows, hidden, queries, 2),
        linear(rows, hidden, 2 * keys, 2),
        linear(rows, queries, hidden, 2),
        linear(rows, hidden, width, 2),
        linear(rows, hidden, width, 2),
        linear(rows, width, hidden, 2),
        gated(rows, width, 2),
    ]
}

/// f32 products have no tensor cores.
fn on_vector_units(cost: Cost) -> Cost {
    Cost { tensor_flops: 0, vector_flops: cost.vector_flops + cost.tensor_flops, ..cost }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::fetch::{FetchSettings, ModelCache};

    fn config(name: &str) -> ModelConfig {
        let cache = ModelCache::new(FetchSettings::from_env()).expect("manifests");
        ModelConfig::from_manifest(cache.manifests().get(name).expect(name)).expect("config")
    }

    #[test]
    fn a_short_prefill_is_bound_by_its_products() {
        let card = Card::named("a100-80gb").expect("card");
        let found = prefill_seconds(&config("qwen3-8b"), KvDtype::Bf16, (2048, 2048), card).expect("dense");
        // 36 layers of 192,937,984 weights, two operations each a token, at 312 TFLOPS.
        let products = 36.0 * 192_937_984.0 * 2.0 * 2048.0 / card.tensor_flops_per_second();
        assert!(found > products && found < 1.2 * products, "{found} beside {products}");
    }

    #[test]
    fn a_long_prefill_in_f32_is_bound_by_attention_without_tensor_cores() {
        let card = Card::named("rtx-4090").expect("card");
        let seconds =
            |dtype| prefill_seconds(&config("qwen3-8b"), dtype, (100_000, 2048), card).expect("dense");
        assert!(seconds(KvDtype::F32) > 1.5 * seconds(KvDtype::Bf16));
        // The same products of fewer bytes.
        let (fp8, bf16) = (seconds(KvDtype::Fp8), seconds(KvDtype::Bf16));
        assert!(fp8 <= bf16 && fp8 > 0.9 * bf16, "{fp8} beside {bf16}");
    }

    #[test]
    fn what_is_not_counted_is_refused() {
        let card = Card::named("h200").expect("card");
        for name in ["qwen3-30b-a3b", "qwen3.5-9b"] {
            let error = prefill_seconds(&config(name), KvDtype::Bf16, (10, 10), card).expect_err(name);
            assert!(error.to_string().contains("is not counted"), "{error}");
        }
    }
}
