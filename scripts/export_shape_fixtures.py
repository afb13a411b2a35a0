#!/usr/bin/env python3
"""Makes the fixtures under tests/fixtures/shapes: shapes that the checkpoints of export_fixtures.py leave out.

Needs what export_fixtures.py needs; CI never runs it.

    python3 scripts/export_shape_fixtures.py [--out tests/fixtures/shapes] [NAME ...]

Their heads are wide and odd in number, so their weights would be many megabytes. No folder has them: `tensors.json`
says how each tensor is drawn, and tests/parity/drawn.rs draws it again.

    {"seed", "tensors": [{"name", "dtype", "shape", "draw"}]}

The numbers of a tensor come from SplitMix64 (Steele, Lea and Flood 2014, Fast splittable pseudorandom number
generators), whose state begins at `seed` plus the 64-bit FNV-1a hash of the tensor's name, modulo 2^64. Each element
takes one output, in row-major order, and of it the uppermost byte b:

    {"offset", "gain", "shift"}   offset + gain * (b as a signed byte >> shift) / (128 >> shift)
    {"bytes": [low, count]}       low + b % count, of dtype U8

Gains are powers of two, so that every value is exact in bf16, f16 and f32 alike.
"""

import json
import math

import numpy
import torch
import transformers

from export_fixtures import VOCAB, main, write_reference

SPECIAL = {"vocab_size": VOCAB, "max_position_embeddings": 8192, "pad_token_id": 0, "bos_token_id": 1,
           "eos_token_id": 2}
# The last one passes ten spans of 256 keys, and ends in the middle of a block.
LENGTHS = [1, 70, 2563]
# The magnitudes of MXFP4 codes 0 to 7; with bit 3 they are negative.
MXFP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]


def llama_five_heads():
    """As many key heads as query heads, five, of 80 elements; plain rope."""
    return transformers.LlamaForCausalLM, transformers.LlamaConfig(
        hidden_size=80, intermediate_size=104, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        head_dim=80, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, **SPECIAL), "F16", 31


def qwen3_seven_heads():
    """Seven query heads over one key head, 128 elements each, a projection of its own."""
    return transformers.Qwen3ForCausalLM, transformers.Qwen3Config(
        hidden_size=56, intermediate_size=88, num_hidden_layers=2, num_attention_heads=7, num_key_value_heads=1,
        head_dim=128, tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}, **SPECIAL), "BF16", 32


def qwen3_moe_three_heads():
    """One expert in every layer; three query heads over one key head, 64 elements each."""
    return transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig(
        hidden_size=48, intermediate_size=80, moe_intermediate_size=40, num_experts=1, num_experts_per_tok=1,
        norm_topk_prob=True, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1, head_dim=64,
        tie_word_embeddings=False, rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        **SPECIAL), "BF16", 33


def qwen3_moe_five_heads():
    """Seven experts; five heads of 128 elements."""
    return transformers.Qwen3MoeForCausalLM, transformers.Qwen3MoeConfig(
        hidden_size=40, intermediate_size=80, moe_intermediate_size=24, num_experts=7, num_experts_per_tok=2,
        norm_topk_prob=True, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5, head_dim=128,
        tie_word_embeddings=True, rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        **SPECIAL), "F32", 34


def gpt_oss_seven_heads():
    """The published head size and window; seven query heads over one key head, three experts that all take part."""
    return transformers.GptOssForCausalLM, transformers.GptOssConfig(
        hidden_size=64, intermediate_size=32, num_local_experts=3, num_experts_per_tok=3, num_hidden_layers=2,
        num_attention_heads=7, num_key_value_heads=1, head_dim=64, sliding_window=128, tie_word_embeddings=False,
        rope_parameters={"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 256,
                         "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "rope_theta": 150000.0},
        **SPECIAL), "BF16", 35


def gpt_oss_wide_window():
    """One expert, as many key heads as query heads, and a window that no prompt reaches the end of."""
    return transformers.GptOssForCausalLM, transformers.GptOssConfig(
        hidden_size=32, intermediate_size=64, num_local_experts=1, num_experts_per_tok=1, num_hidden_layers=2,
        num_attention_heads=5, num_key_value_heads=5, head_dim=80, sliding_window=4096, tie_word_embeddings=False,
        rope_parameters={"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512,
                         "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "rope_theta": 150000.0},
        **SPECIAL), "F32", 36


def gemma3_three_heads():
    """The published head size, 256, in three query heads over one key head, and a window that no prompt reaches the end of."""
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(
        hidden_size=48, intermediate_size=72, num_hidden_layers=6, num_attention_heads=3, num_key_value_heads=1,
        head_dim=256, query_pre_attn_scalar=256, sliding_window=4096,
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                         "full_attention": {"rope_type": "default", "rope_theta": 1000000.0}}, **SPECIAL), "BF16", 37


def gemma3_five_heads():
    """Five heads of 64 elements, and a window of a span of keys and a token."""
    return transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(
        hidden_size=40, intermediate_size=64, num_hidden_layers=6, num_attention_heads=5, num_key_value_heads=5,
        head_dim=64, query_pre_attn_scalar=40, sliding_window=257,
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                         "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0}},
        **SPECIAL), "F16", 38


def gemma4_published_heads():
    """The published head sizes, 256 and 512, in seven query heads over one key head; shared layers, per-layer inputs."""
    return transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig(
        hidden_size=40, hidden_size_per_layer_input=16, vocab_size_per_layer_input=VOCAB, intermediate_size=48,
        num_hidden_layers=6, num_attention_heads=7, num_key_value_heads=1, head_dim=256, global_head_dim=512,
        num_kv_shared_layers=2, use_double_wide_mlp=True, sliding_window=100,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2,
        final_logit_softcapping=30.0, **SPECIAL), "BF16", 39


def gemma4_five_heads():
    """Keys as values; five key heads in sliding layers and one in full ones, a window that no prompt reaches the end of."""
    return transformers.Gemma4ForCausalLM, transformers.Gemma4TextConfig(
        hidden_size=32, hidden_size_per_layer_input=0, intermediate_size=56, num_hidden_layers=3,
        num_attention_heads=5, num_key_value_heads=5, head_dim=128, global_head_dim=256,
        num_global_key_value_heads=1, attention_k_eq_v=True, sliding_window=4096,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"], final_logit_softcapping=30.0,
        **SPECIAL), "F32", 40


def qwen3_5_published_heads():
    """The published head sizes, 256 and 128, in seven query heads over one key head; three value heads a key head."""
    return transformers.Qwen3_5ForCausalLM, transformers.Qwen3_5TextConfig(
        hidden_size=48, intermediate_size=64, num_hidden_layers=4, num_attention_heads=7, num_key_value_heads=1,
        head_dim=256, linear_conv_kernel_dim=4, linear_num_key_heads=1, linear_num_value_heads=3,
        linear_key_head_dim=128, linear_value_head_dim=128, layer_types=["linear_attention"] * 3 + ["full_attention"],
        tie_word_embeddings=False,
        rope_parameters={"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
        **SPECIAL), "BF16", 41


def qwen3_5_five_heads():
    """Five heads of 64 elements, of which half rotate; as many value heads as key heads."""
    return transformers.Qwen3_5ForCausalLM, transformers.Qwen3_5TextConfig(
        hidden_size=40, intermediate_size=56, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5,
        head_dim=64, linear_conv_kernel_dim=4, linear_num_key_heads=5, linear_num_value_heads=5,
        linear_key_head_dim=32, linear_value_head_dim=16,
        layer_types=["full_attention", "linear_attention", "linear_attention"], tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5},
        **SPECIAL), "F16", 42


FIXTURES = {fixture.__name__: fixture for fixture in (
    llama_five_heads, qwen3_seven_heads, qwen3_moe_three_heads, qwen3_moe_five_heads, gpt_oss_seven_heads,
    gpt_oss_wide_window, gemma3_three_heads, gemma3_five_heads, gemma4_published_heads, gemma4_five_heads,
    qwen3_5_published_heads, qwen3_5_five_heads)}


def fnv1a(name):
    """The 64-bit FNV-1a hash."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return value


def bytes_of(seed, name, count):
    """The uppermost bytes of `count` outputs of SplitMix64."""
    start = (seed + fnv1a(name)) % (1 << 64)
    with numpy.errstate(over="ignore"):
        state = numpy.uint64(start) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        state = state ^ (state >> numpy.uint64(31))
    return (state >> numpy.uint64(56)).astype(numpy.uint8)


class Drawer:
    """Draws tensors, and notes how."""

    def __init__(self, seed, dtype):
        self.seed, self.dtype, self.tensors = seed, dtype, []

    def numbers(self, name, shape, offset, gain, shift=0):
        draw = {"offset": offset, "gain": gain, "shift": shift}
        self.tensors.append({"name": name, "dtype": self.dtype, "shape": list(shape), "draw": draw})
        signed = bytes_of(self.seed, name, math.prod(shape)).view(numpy.int8) >> shift
        values = offset + gain * signed.astype(numpy.float64) / (128 >> shift)
        return torch.from_numpy(values.astype(numpy.float32)).reshape(tuple(shape))

    def bytes(self, name, shape, low, count):
        draw = {"bytes": [low, count]}
        self.tensors.append({"name": name, "dtype": "U8", "shape": list(shape), "draw": draw})
        drawn = bytes_of(self.seed, name, math.prod(shape)).astype(numpy.int64)
        return torch.from_numpy(low + drawn % count).reshape(tuple(shape))

    def matrix(self, name, shape, fan_in):
        # A uniform byte has a standard deviation of 0.58; unit gain and a little more, as in export_fixtures.py.
        return self.numbers(name, shape, 0.0, 2.0 ** round(math.log2(2.25 / math.sqrt(fan_in))))

    def mxfp4(self, name, outputs, inputs, experts):
        """Published blocks and scales; the values as `[experts, inputs, outputs]`, as transformers has them."""
        blocks = self.bytes(f"{name}_blocks", [experts, outputs, inputs // 32, 16], 0, 256)
        # The values' standard deviation is about 2.9.
        exponent = 127 + round(math.log2(1.3 / math.sqrt(inputs) / 2.9))
        scales = self.bytes(f"{name}_scales", [experts, outputs, inputs // 32], exponent, 2)
        codes = torch.stack([blocks & 15, blocks >> 4], dim=-1).flatten(-2)
        table = torch.tensor(MXFP4 + [-value for value in MXFP4])
        values = table[codes] * torch.exp2((scales - 127).float()).unsqueeze(-1)
        return values.flatten(-2).transpose(1, 2)


def draw(drawer, model, name, parameter):
    """The values of one parameter, from the tensors that a published checkpoint has for it."""
    family, shape = type(model).__name__, parameter.shape
    stem, _, leaf = name.rpartition(".")
    if stem.endswith("mlp.experts") and parameter.ndim == 3:
        if "GptOss" in family:
            return drawer.mxfp4(name, shape[2], shape[1], shape[0])
        experts = []
        for expert in range(shape[0]):
            parts = ["gate_proj", "up_proj"] if leaf == "gate_up_proj" else ["down_proj"]
            rows = shape[1] // len(parts)
            experts.append(torch.cat([
                drawer.matrix(f"{stem}.{expert}.{part}.weight", (rows, shape[2]), shape[2]) for part in parts]))
        return torch.stack(experts)
    if name.endswith("A_log"):
        return drawer.numbers(name, shape, -2.0, 2.0)
    if name.endswith("sinks") or "bias" in name and "dt_bias" not in name:
        return drawer.numbers(name, shape, 0.0, 0.5, 3)
    if name.endswith("layer_scalar"):
        return drawer.numbers(name, shape, 1.0, 0.125, 3)
    if "Gemma4" in family and name.endswith("k_norm.weight"):
        # Its scores are not divided by the root of the head size. Keys of unit elements would give scores of tens, at
        # which rounding in f32 alone moves transformers' own logits by as much as the tolerance.
        return drawer.numbers(name, shape, 0.125, 0.03125, 3)
    if parameter.ndim == 1:
        centred = any(kind in family for kind in ("Gemma3", "Qwen3_5")) and "linear_attn" not in name
        return drawer.numbers(name, shape, 0.0 if centred else 1.0, 0.25, 3)
    if "embed_tokens" in name:
        return drawer.numbers(name, shape, 0.0, 0.5)
    return drawer.matrix(name, shape, shape[2] if "conv1d" in name else shape[1])


@torch.no_grad()
def export(name, folder):
    model_class, config, dtype, seed = FIXTURES[name]()
    config._attn_implementation = "eager"
    model = model_class(config).to(torch.float32).eval()
    drawer = Drawer(seed, dtype)
    scalars = [(key, value) for key, value in model.named_buffers() if key.endswith("layer_scalar")]
    for key, parameter in sorted([*model.named_parameters(), *scalars]):
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        parameter.copy_(draw(drawer, model, key, parameter))
    folder.mkdir(parents=True, exist_ok=True)
    saved = config.to_diff_dict()
    saved["architectures"] = [model_class.__name__]
    if "GptOss" in model_class.__name__:
        saved["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n")
    lines = ",\n".join(json.dumps(tensor, separators=(",", ":")) for tensor in drawer.tensors)
    (folder / "tensors.json").write_text(f'{{"seed":{seed},"tensors":[\n{lines}\n]}}\n')
    write_reference(name, folder, model, seed, LENGTHS)


if __name__ == "__main__":
    main(__doc__, FIXTURES, export, "tests/fixtures/shapes")
