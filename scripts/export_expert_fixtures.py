#!/usr/bin/env python3
"""Makes the checkpoints with experts under tests/fixtures/tiny, beside those of export_fixtures.py.

Needs what export_fixtures.py needs, and the package gguf (0.19); CI never runs it.

    python3 scripts/export_expert_fixtures.py [--out tests/fixtures/tiny] [NAME ...]

transformers keeps all experts of a layer in one parameter. The files have them as published: Qwen3-MoE one tensor for
each, gpt-oss blocks and scales of MXFP4, GGUF files the stacked tensors of llama.cpp's converter. A GGUF file stands in
the folder of the checkpoint that it holds again, so that one reference serves both.
"""

import json
import math

import gguf
import numpy
import safetensors.torch
import torch
import transformers

from export_fixtures import VOCAB, main, write_reference

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def qwen3_moe():
    """A dense layer among the others, three of five experts, weights that do not add up to 1, f16."""
    return transformers.Qwen3MoeConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=80,
        moe_intermediate_size=40,
        num_experts=5,
        num_experts_per_tok=3,
        norm_topk_prob=False,
        mlp_only_layers=[1],
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=3,
        head_dim=16,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128,
                         "rope_theta": 10000.0},
        **SPECIAL,
    ), torch.float16, 21


def qwen3_moe_gguf():
    """Experts in every layer and weights that add up to 1, as GGUF files have it."""
    config, dtype, _ = qwen3_moe()
    config.norm_topk_prob, config.mlp_only_layers = True, []
    config.num_hidden_layers = 2
    return config, dtype, 22


def qwen3_moe_one_expert():
    """One expert, in every second layer."""
    config, dtype, _ = qwen3_moe()
    config.num_experts, config.num_experts_per_tok = 1, 1
    config.mlp_only_layers, config.decoder_sparse_step = [], 2
    config.num_hidden_layers = 2
    return config, dtype, 23


def gpt_oss():
    """A window that is no multiple of a block, one expert width that is not the hidden size, the older rope dialect."""
    return transformers.GptOssConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_local_experts=6,
        num_experts_per_tok=2,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        sliding_window=41,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 256,
                         "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "rope_theta": 150000.0},
        **SPECIAL,
    ), torch.bfloat16, 24


FIXTURES = {
    "qwen3_moe": qwen3_moe,
    "qwen3_moe_gguf": qwen3_moe_gguf,
    "qwen3_moe_one_expert": qwen3_moe_one_expert,
    "gpt_oss": gpt_oss,
}


def mxfp4(values):
    """ggml's blocks of the nearest MXFP4 values, `[.., out, in / 32 * 17]`, and those values."""
    blocks = gguf.quants.quantize(values.numpy(), gguf.GGMLQuantizationType.MXFP4)
    return blocks, torch.from_numpy(gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.MXFP4))


@torch.no_grad()
def randomise(model, dtype, seed):
    """As export_fixtures.py; returns the MXFP4 blocks by parameter, in rows of outputs."""
    generator, packed = torch.Generator().manual_seed(seed), {}
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "GptOss" in type(model).__name__ and parameter.ndim == 3:
            noise = noise.transpose(1, 2) * (1.3 / math.sqrt(parameter.shape[1]))
            packed[name], values = mxfp4(noise.contiguous())
            parameter.copy_(values.transpose(1, 2))
            continue
        if name.endswith("sinks") or "bias" in name:
            value = 0.3 * noise
        elif parameter.ndim == 1:
            value = 1.0 + 0.2 * noise
        elif "embed_tokens" in name:
            value = 0.35 * noise
        else:
            value = noise * (1.3 / math.sqrt(parameter.shape[-1]))
        parameter.copy_(value.to(dtype).to(torch.float32))
    return packed


def published(name, value, dtype, packed):
    """The tensors of a checkpoint that one parameter becomes."""
    stem, _, leaf = name.rpartition(".")
    if name in packed:
        blocks = packed[name].reshape(*packed[name].shape[:-1], -1, 17)
        codes = numpy.concatenate([blocks[..., 1:] & 15, blocks[..., 1:] >> 4], axis=-1)
        pairs = codes[..., 0::2] | codes[..., 1::2] << 4
        yield f"{name}_blocks", torch.from_numpy(pairs)
        yield f"{name}_scales", torch.from_numpy(blocks[..., 0].copy())
    elif stem.endswith("mlp.experts") and value.ndim == 3:
        for expert, matrix in enumerate(value.to(dtype)):
            parts = {"down_proj": matrix} if leaf == "down_proj" else dict(
                zip(("gate_proj", "up_proj"), matrix.chunk(2)))
            for part, weight in parts.items():
                yield f"{stem}.{expert}.{part}.weight", weight.contiguous()
    else:
        yield name, value.to(dtype).contiguous()


GGUF_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    "mlp.experts.gate_proj": "ffn_gate_exps", "mlp.experts.up_proj": "ffn_up_exps",
    "mlp.experts.down_proj": "ffn_down_exps",
}


def gguf_name(name, architecture):
    stem, _, suffix = name.rpartition(".")
    if suffix == "sinks":
        return f"blk.{stem.split('.')[2]}.attn_sinks.weight"
    if stem in GGUF_NAMES:
        return f"{GGUF_NAMES[stem]}.{suffix}"
    _, _, layer, part = stem.split(".", 3)
    if part == "post_attention_layernorm":
        return f"blk.{layer}.{'post_attention_norm' if architecture == 'gpt-oss' else 'ffn_norm'}.{suffix}"
    return f"blk.{layer}.{GGUF_NAMES[part]}.{suffix}"


def gguf_tensors(name, value, packed):
    """The tensors of a GGUF file that one parameter becomes: name, array, type."""
    stem, _, leaf = name.rpartition(".")
    if not stem.endswith("mlp.experts"):
        yield name, value.numpy(), None
        return
    bias, leaf = leaf.endswith("_bias"), leaf.removesuffix("_bias")
    if name in packed:
        rows, kind = packed[name], gguf.GGMLQuantizationType.MXFP4
    else:
        rows, kind = value.numpy(), None
    interleaved = kind is not None or bias
    if leaf == "down_proj":
        parts = {"down_proj": rows}
    elif interleaved:
        parts = {"gate_proj": rows[:, 0::2], "up_proj": rows[:, 1::2]}
    else:
        half = rows.shape[1] // 2
        parts = {"gate_proj": rows[:, :half], "up_proj": rows[:, half:]}
    for part, array in parts.items():
        yield f"{stem}.{part}.{'bias' if bias else 'weight'}", numpy.ascontiguousarray(array), kind


def write_gguf(path, model, config, packed):
    architecture = "gpt-oss" if packed else "qwen3moe"
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_expert_count(config.num_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", config.intermediate_size))
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    writer.add_rope_scaling_factor(rope["factor"])
    writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if packed:
        writer.add_sliding_window(config.sliding_window)
    # The bytes alone; the references are of token ids.
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)])
    writer.add_token_scores([0.0] * VOCAB)
    writer.add_token_types([gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for name, parameter in model.named_parameters():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        for tensor, array, kind in gguf_tensors(name, parameter.detach(), packed):
            # Vectors and biases are f32, as the converter writes them; matrices keep their numbers in f16 or bf16.
            tensor = gguf_name(tensor, architecture)
            if kind is None and array.ndim > 1 and tensor.endswith(".weight"):
                kind = gguf.GGMLQuantizationType.BF16 if packed else gguf.GGMLQuantizationType.F16
                array = gguf.quants.quantize(array, kind)
            writer.add_tensor(tensor, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def export(name, folder):
    config, dtype, seed = FIXTURES[name]()
    config._attn_implementation = "eager"
    model_class = transformers.GptOssForCausalLM if name == "gpt_oss" else transformers.Qwen3MoeForCausalLM
    model = model_class(config).to(torch.float32).eval()
    packed = randomise(model, dtype, seed)
    folder.mkdir(parents=True, exist_ok=True)
    if name in ("gpt_oss", "qwen3_moe_gguf"):
        write_gguf(folder / "model.gguf", model, config, packed)
    if name != "qwen3_moe_gguf":
        tensors = {}
        for parameter, value in model.named_parameters():
            tensors.update(published(parameter, value.detach(), dtype, packed))
        if config.tie_word_embeddings:
            tensors.pop("lm_head.weight", None)
        safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        saved = config.to_dict()
        saved["architectures"] = [model_class.__name__]
        if packed:
            saved["quantization_config"] = {"quant_method": "mxfp4"}
            saved["rope_scaling"] = saved.pop("rope_parameters")
            saved["rope_theta"] = saved["rope_scaling"].pop("rope_theta")
        (folder / "config.json").write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n")
    write_reference(name, folder, model, seed)


if __name__ == "__main__":
    main(__doc__, FIXTURES, export)
