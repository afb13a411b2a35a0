#!/usr/bin/env python3
"""Makes the checkpoints under tests/fixtures/tiny and the reference logits beside them.

Needs torch, transformers and safetensors; CI never runs it. The files it wrote are committed, so that the parity and
property tests run on any machine without shared data or a download. Run it again only to change a fixture:

    python3 scripts/export_fixtures.py [--out tests/fixtures/tiny] [NAME ...]

Each folder holds `config.json`, `model.safetensors` and `reference.json`:

    {"transformers", "torch", "seed",
     "cases": [{"token_ids", "last_logits", "positions": {position: {"ids", "logits"}}, "greedy_16"}]}

Weights are random, rounded to the stored type first; the reference is transformers' own forward pass of the rounded
weights in f32 with eager attention. Logits are raw, rounded to five decimals.
"""

import argparse
import json
import math
import pathlib
import random

import safetensors.torch
import torch
import transformers

VOCAB = 259
LENGTHS = [1, 18, 70, 300]
TOP = 5


def llama():
    """Untied projection, llama3 scaling with its smooth passage inside the head, one key head for three queries."""
    config = transformers.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=112,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.LlamaForCausalLM, config, torch.float16, 11


def qwen3():
    """f32 weights, heads wider than hidden size over heads, as many key heads as query heads."""
    config = transformers.Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,
        max_position_embeddings=8192,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Qwen3ForCausalLM, config, torch.float32, 12


def gemma3():
    """A window that is no multiple of a block, seven layers, a query scale of its own, scaled full layers."""
    config = transformers.Gemma3TextConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=7,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=8192,
        rms_norm_eps=1e-6,
        query_pre_attn_scalar=24,
        sliding_window=41,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000000.0},
        },
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Gemma3ForCausalLM, config, torch.bfloat16, 13


def gemma4():
    """Like E2B: three query heads, heads of 64 and 256 elements, shared layers with wider feed-forward blocks, a
    per-layer vocabulary larger than the main one, a soft cap."""
    config = transformers.Gemma4TextConfig(
        vocab_size=VOCAB,
        vocab_size_per_layer_input=VOCAB + 12,
        hidden_size=32,
        hidden_size_per_layer_input=24,
        intermediate_size=48,
        num_hidden_layers=7,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=64,
        global_head_dim=256,
        num_kv_shared_layers=3,
        use_double_wide_mlp=True,
        layer_types=["sliding_attention", "full_attention"] + ["sliding_attention"] * 4 + ["full_attention"],
        sliding_window=41,
        final_logit_softcapping=6.0,
        max_position_embeddings=8192,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Gemma4ForCausalLM, config, torch.bfloat16, 14


def gemma4_keys_are_values():
    """Like 31B: no value projections in full layers, three key heads or one, heads of 80 and 512 elements, a window
    larger than the prompts."""
    config = transformers.Gemma4TextConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        hidden_size_per_layer_input=0,
        intermediate_size=56,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        head_dim=80,
        global_head_dim=512,
        num_global_key_value_heads=1,
        attention_k_eq_v=True,
        sliding_window=512,
        final_logit_softcapping=30.0,
        max_position_embeddings=8192,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Gemma4ForCausalLM, config, torch.float16, 17


def qwen3_5():
    """Recurrent layers first, between and last; value heads wider than key heads, both no multiple of 16; a short
    convolution; heads that rotate by two fifths."""
    config = transformers.Qwen3_5TextConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=5,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=40,
        linear_conv_kernel_dim=3,
        linear_num_key_heads=3,
        linear_num_value_heads=6,
        linear_key_head_dim=12,
        linear_value_head_dim=24,
        layer_types=["linear_attention", "full_attention"] * 2 + ["linear_attention"],
        max_position_embeddings=8192,
        rms_norm_eps=1e-6,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.4},
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return transformers.Qwen3_5ForCausalLM, config, torch.bfloat16, 14


FIXTURES = {
    "llama": llama,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "gemma4": gemma4,
    "gemma4_keys_are_values": gemma4_keys_are_values,
    "qwen3_5": qwen3_5,
}


def randomise(model, dtype, seed):
    """Weights that make every part of the model matter: unit gain a matrix, norms near one, spread-out logits."""
    generator = torch.Generator().manual_seed(seed)
    centred = any(family in type(model).__name__ for family in ("Gemma3", "Qwen3_5"))
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("A_log"):
            # From states that fade within a token to some that last for hundreds.
            value = 1.5 * noise - 2.0
        elif parameter.ndim == 1:
            offset = 0.0 if centred and "linear_attn" not in name else 1.0
            value = offset + 0.2 * noise
        elif "conv1d" in name:
            value = noise * (1.3 / math.sqrt(parameter.shape[2]))
        elif "embed_tokens" in name:
            value = 0.35 * noise
        else:
            value = noise * (1.3 / math.sqrt(parameter.shape[1]))
        with torch.no_grad():
            parameter.copy_(value.to(dtype).to(torch.float32))
    # Gemma 4's layer scalars are buffers.
    for name, buffer in sorted(model.named_buffers()):
        if name.endswith("layer_scalar"):
            value = 0.9 + 0.2 * torch.rand(buffer.shape, generator=generator)
            buffer.copy_(value.to(dtype).to(torch.float32))


def old_dialect(config):
    """The same settings as releases before `rope_parameters` and `layer_types` wrote them."""
    full = config.pop("rope_parameters")["full_attention"]
    config.pop("layer_types")
    config["rope_theta"] = full["rope_theta"]
    config["rope_scaling"] = {"rope_type": "linear", "factor": full["factor"]}
    config["rope_local_base_freq"] = 10000.0
    config["sliding_window_pattern"] = config.pop("_sliding_window_pattern", 6)
    return config


def published_dialect(config):
    """The same settings as the published multimodal checkpoints have them: beside those of a vision tower, and with
    fields of their own for full layers, where transformers 5.24 writes what differs layer by layer."""
    config.pop("layer_types")
    config.pop("rope_parameters")
    full = list(config.pop("per_layer_config").values())[-1]
    config["global_head_dim"] = full["head_dim"]
    config["num_global_key_value_heads"] = full["num_key_value_heads"]
    return {"model_type": "gemma4", "text_config": config, "vision_config": {"model_type": "gemma4_vision"}}


def rounded(values):
    return [round(float(value), 5) for value in values]


@torch.no_grad()
def case(model, tokens, generator):
    logits = model(torch.tensor([tokens])).logits[0]
    positions = sorted({0, len(tokens) - 1, *(generator.randrange(len(tokens)) for _ in range(6))})
    greedy = list(tokens)
    for _ in range(16):
        greedy.append(int(model(torch.tensor([greedy])).logits[0, -1].argmax()))
    top = {position: torch.topk(logits[position], TOP) for position in positions}
    return {
        "token_ids": tokens,
        "last_logits": rounded(logits[-1]),
        "positions": {
            str(position): {"ids": found.indices.tolist(), "logits": rounded(found.values)}
            for position, found in top.items()
        },
        "greedy_16": greedy[len(tokens):],
    }


def write_reference(name, folder, model, seed, lengths=LENGTHS):
    """Writes `reference.json` beside a checkpoint, and says how large the fixture is."""
    generator = random.Random(seed)
    prompts = [[1] + [generator.randrange(3, VOCAB) for _ in range(length - 1)] for length in lengths]
    reference = {
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "seed": seed,
        "cases": [case(model, tokens, generator) for tokens in prompts],
    }
    (folder / "reference.json").write_text(json.dumps(reference, separators=(",", ":")) + "\n")
    margins = [entry["logits"][0] - entry["logits"][1]
               for item in reference["cases"] for entry in item["positions"].values()]
    print(f"{name}: {sum(file.stat().st_size for file in folder.iterdir())} bytes, least margin {min(margins):.4f}")


def main(about, fixtures, export, out="tests/fixtures/tiny"):
    """Exports the fixtures named on the command line, or all."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out))
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    for name in arguments.names or fixtures:
        export(name, arguments.out / name)


def export(name, folder):
    model_class, config, dtype, seed = FIXTURES[name]()
    config._attn_implementation = "eager"
    model = model_class(config).to(torch.float32).eval()
    randomise(model, dtype, seed)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()}
    if config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    saved = config.to_diff_dict()
    saved["architectures"] = [model_class.__name__]
    if name == "gemma3":
        saved = old_dialect(saved)
    if name == "gemma4_keys_are_values":
        saved = published_dialect(saved)
    (folder / "config.json").write_text(json.dumps(saved, indent=1, sort_keys=True) + "\n")
    write_reference(name, folder, model, seed)


if __name__ == "__main__":
    main(__doc__, FIXTURES, export)
