//! Names on disk and canonical names.
use super::super::names::{
    Conventions, HfName, canonical_gguf_name, canonical_hf_name, gguf_conventions, known_gguf_architectures,
};

#[track_caller]
fn check_gguf(architecture: &str, pairs: &[(&str, &str)]) {
    for (gguf, canonical) in pairs {
        let found = canonical_gguf_name(architecture, gguf);
        assert_eq!(found.as_deref(), Some(*canonical), "{architecture} {gguf}");
    }
}

#[test]
fn gguf_names_every_architecture_shares() {
    for architecture in known_gguf_architectures() {
        check_gguf(
            architecture,
            &[
                ("token_embd.weight", "model.embed_tokens.weight"),
                ("output_norm.weight", "model.norm.weight"),
                ("output.weight", "lm_head.weight"),
                ("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"),
                ("blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
                ("blk.12.attn_q.bias", "model.layers.12.self_attn.q_proj.bias"),
                ("blk.3.attn_k.weight", "model.layers.3.self_attn.k_proj.weight"),
                ("blk.3.attn_v.weight", "model.layers.3.self_attn.v_proj.weight"),
                ("blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"),
                ("blk.3.ffn_gate.weight", "model.layers.3.mlp.gate_proj.weight"),
                ("blk.3.ffn_up.weight", "model.layers.3.mlp.up_proj.weight"),
                ("blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"),
            ],
        );
    }
}

#[test]
fn norms_have_the_place_their_architecture_gives_them() {
    for architecture in ["llama", "qwen3", "qwen3moe"] {
        check_gguf(
            architecture,
            &[("blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight")],
        );
    }
    check_gguf(
        "gemma3",
        &[
            ("blk.1.post_attention_norm.weight", "model.layers.1.post_attention_layernorm.weight"),
            ("blk.1.ffn_norm.weight", "model.layers.1.pre_feedforward_layernorm.weight"),
            ("blk.1.post_ffw_norm.weight", "model.layers.1.post_feedforward_layernorm.weight"),
        ],
    );
    for architecture in ["qwen3", "gemma3"] {
        check_gguf(
            architecture,
            &[
                ("blk.1.attn_q_norm.weight", "model.layers.1.self_attn.q_norm.weight"),
                ("blk.1.attn_k_norm.weight", "model.layers.1.self_attn.k_norm.weight"),
            ],
        );
    }
    assert_eq!(canonical_gguf_name("llama", "blk.1.attn_q_norm.weight"), None);
}

#[test]
fn gemma4_s_own_gguf_names_are_mapped() {
    for (name, canonical) in [
        ("per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"),
        ("per_layer_model_proj.weight", "model.per_layer_model_projection.weight"),
        ("per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"),
        ("blk.7.inp_gate.weight", "model.layers.7.per_layer_input_gate.weight"),
        ("blk.7.proj.weight", "model.layers.7.per_layer_projection.weight"),
        ("blk.7.post_norm.weight", "model.layers.7.post_per_layer_input_norm.weight"),
        ("blk.7.post_attention_norm.weight", "model.layers.7.post_attention_layernorm.weight"),
        ("blk.7.layer_output_scale.weight", "model.layers.7.layer_scalar"),
    ] {
        assert_eq!(canonical_gguf_name("gemma4", name).as_deref(), Some(canonical), "{name}");
    }
    assert_eq!(canonical_gguf_name("gemma4", "blk.7.layer_output_scale.bias"), None);
    assert_eq!(canonical_gguf_name("gemma4", "rope_freqs.weight"), None);
    assert_eq!(gguf_conventions("gemma4"), Some(Conventions::default()));
}

#[test]
fn recurrent_layers_of_qwen3_5_are_mapped() {
    check_gguf(
        "qwen35",
        &[
            ("blk.3.attn_q.weight", "model.layers.3.self_attn.q_proj.weight"),
            ("blk.3.attn_k_norm.weight", "model.layers.3.self_attn.k_norm.weight"),
            ("blk.0.post_attention_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
            ("blk.0.attn_qkv.weight", "model.layers.0.linear_attn.in_proj_qkv.weight"),
            ("blk.0.attn_gate.weight", "model.layers.0.linear_attn.in_proj_z.weight"),
            ("blk.0.ssm_alpha.weight", "model.layers.0.linear_attn.in_proj_a.weight"),
            ("blk.0.ssm_beta.weight", "model.layers.0.linear_attn.in_proj_b.weight"),
            ("blk.0.ssm_conv1d.weight", "model.layers.0.linear_attn.conv1d.weight"),
            ("blk.0.ssm_a", "model.layers.0.linear_attn.A_log"),
            ("blk.0.ssm_dt.bias", "model.layers.0.linear_attn.dt_bias"),
            ("blk.0.ssm_norm.weight", "model.layers.0.linear_attn.norm.weight"),
            ("blk.0.ssm_out.weight", "model.layers.0.linear_attn.out_proj.weight"),
        ],
    );
    assert_eq!(canonical_gguf_name("qwen35", "blk.9.nextn.eh_proj.weight"), None);
    let conventions = gguf_conventions("qwen35").unwrap();
    assert!(conventions.norm_weights_include_one && conventions.decay_rates);
    assert!(conventions.value_heads_in_turn && !conventions.rope_pairs_interleaved);
}

#[test]
fn experts_of_a_layer_are_one_tensor() {
    for architecture in ["qwen3moe", "gpt-oss"] {
        check_gguf(
            architecture,
            &[
                ("blk.2.ffn_gate_exps.weight", "model.layers.2.mlp.experts.gate_proj.weight"),
                ("blk.2.ffn_up_exps.weight", "model.layers.2.mlp.experts.up_proj.weight"),
                ("blk.2.ffn_down_exps.bias", "model.layers.2.mlp.experts.down_proj.bias"),
            ],
        );
    }
    check_gguf("qwen3moe", &[("blk.2.ffn_gate_inp.weight", "model.layers.2.mlp.gate.weight")]);
    check_gguf(
        "gpt-oss",
        &[
            ("blk.2.ffn_gate_inp.bias", "model.layers.2.mlp.router.bias"),
            ("blk.2.attn_sinks.weight", "model.layers.2.self_attn.sinks.weight"),
            ("blk.2.post_attention_norm.weight", "model.layers.2.post_attention_layernorm.weight"),
        ],
    );
}

#[test]
fn other_gguf_names_are_not_guessed_at() {
    for name in [
        "rope_freqs.weight",
        "blk.01.attn_q.weight",
        "blk.-1.attn_q.weight",
        "blk.attn_q.weight",
        "blk.1.attn_q",
        "blk.1.attn_q.scale",
        "weight",
        "",
    ] {
        assert_eq!(canonical_gguf_name("llama", name), None, "{name}");
    }
    assert_eq!(canonical_gguf_name("mamba", "token_embd.weight"), None);
}

#[test]
fn conventions_differ_by_architecture() {
    let plain = Conventions::default();
    assert_eq!(gguf_conventions("qwen3"), Some(plain));
    assert!(
        gguf_conventions("gemma3").is_some_and(|c| c.norm_weights_include_one && !c.rope_pairs_interleaved)
    );
    assert!(
        gguf_conventions("llama").is_some_and(|c| !c.norm_weights_include_one && c.rope_pairs_interleaved)
    );
    assert_eq!(gguf_conventions("mamba"), None);
}

#[test]
fn hf_prefixes_are_removed_and_towers_skipped() {
    for (name, canonical) in [
        ("model.norm.weight", "model.norm.weight"),
        ("lm_head.weight", "lm_head.weight"),
        ("model.language_model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.up_proj.weight"),
        ("language_model.model.embed_tokens.weight", "model.embed_tokens.weight"),
        ("language_model.lm_head.weight", "lm_head.weight"),
        ("model.embed_tokens_per_layer.weight", "model.embed_tokens_per_layer.weight"),
        ("visually.weight", "visually.weight"),
    ] {
        assert_eq!(canonical_hf_name(name), HfName::Text(canonical.into()), "{name}");
    }
    for (name, prefix) in [
        ("vision_tower.vision_model.embeddings.weight", "vision_tower"),
        ("model.vision_tower.encoder.weight", "model.vision_tower"),
        ("model.visual.blocks.0.attn.qkv.weight", "model.visual"),
        ("visual.patch_embed.proj.weight", "visual"),
        ("multi_modal_projector.mm_input_projection_weight", "multi_modal_projector"),
        ("model.embed_vision.embedding_projection.weight", "model.embed_vision"),
        ("model.audio_tower.conformer.0.weight", "model.audio_tower"),
        ("mtp.layers.0.input_layernorm.weight", "mtp"),
    ] {
        assert_eq!(canonical_hf_name(name), HfName::Skipped(prefix), "{name}");
    }
}

#[test]
fn a_text_model_saved_alone_gets_its_prefix() {
    for (name, canonical) in [
        ("layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.q_proj.weight"),
        ("embed_tokens.weight", "model.embed_tokens.weight"),
        ("norm.weight", "model.norm.weight"),
        ("model.norm.weight", "model.norm.weight"),
        // Encoders keep their names.
        ("encoder.layer.0.output.dense.weight", "encoder.layer.0.output.dense.weight"),
        ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.weight"),
    ] {
        assert_eq!(canonical_hf_name(name), HfName::Text(canonical.into()), "{name}");
    }
}
