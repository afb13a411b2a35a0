#!/usr/bin/env python3
"""Makes the GGUF files beside the Gemma 4 and Qwen3.5 checkpoints under tests/fixtures/tiny with llama.cpp's own converter.

    python3 scripts/export_gguf_fixtures.py LLAMA_CPP_FOLDER [NAME ...]

LLAMA_CPP_FOLDER is llama.cpp's source (b11434 made the committed files). Needs torch, gguf and what the converter
needs; CI never runs it. The checkpoints have no tokenizer, so the files get a vocabulary of three control tokens and
all bytes. Weights keep their bits: matrices their type, vectors f32.
"""

import json
import pathlib
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "tiny"
FILES = {"gemma4": "bf16", "gemma4_keys_are_values": "f16", "qwen3_5": "bf16"}
# What transformers fills in where the checkpoint's config leaves it out; the converter asks for it.
ROPE = {
    "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}


def set_vocab(model):
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % byte for byte in range(256))]
    writer = model.gguf_writer
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([float(-index) for index in range(len(tokens))])
    writer.add_token_types([2, 3, 3] + [6] * 256)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def add_next_token_head(config, path):
    """The published Qwen3.5 have a layer behind the last that guesses a token ahead; this one is a copy of a full layer."""
    import safetensors.torch

    layer = f"model.layers.{config['layer_types'].index('full_attention')}."
    tensors = safetensors.torch.load_file(path)
    copies = {f"mtp.layers.0.{name.removeprefix(layer)}": value.clone()
              for name, value in tensors.items() if name.startswith(layer)}
    norm = tensors["model.norm.weight"]
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        copies[f"mtp.{name}.weight"] = norm.clone()
    embedding = tensors["model.embed_tokens.weight"]
    copies["mtp.fc.weight"] = embedding[: 2 * norm.numel()].reshape(norm.numel(), -1).clone()
    config["mtp_num_hidden_layers"] = 1
    safetensors.torch.save_file(tensors | copies, path, metadata={"format": "pt"})


def convert(model_class, gguf, name, dtype):
    config = json.loads((FIXTURES / name / "config.json").read_text())
    config = config.get("text_config", config)
    layers = config["num_hidden_layers"]
    if name.startswith("gemma4"):
        config["architectures"] = ["Gemma4ForCausalLM"]
        config.setdefault("layer_types", ["sliding_attention"] * (layers - 1) + ["full_attention"])
        config.setdefault("rope_parameters", ROPE)
    types = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "f16": gguf.LlamaFileType.MOSTLY_F16}
    with tempfile.TemporaryDirectory() as folder:
        # The converter takes the model's name from the folder's.
        folder = pathlib.Path(folder) / name
        folder.mkdir()
        # The converter cuts the embedding to the tokenizer's size.
        vocabulary = {str(index): index for index in range(config["vocab_size"])}
        (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocabulary}, "added_tokens": []}))
        (folder / "model.safetensors").write_bytes((FIXTURES / name / "model.safetensors").read_bytes())
        if name.startswith("qwen3_5"):
            add_next_token_head(config, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(config))
        model_class(folder, types[dtype], FIXTURES / name / f"model-{dtype}.gguf").write()


def main():
    source = pathlib.Path(sys.argv[1])
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    import gguf
    import torch
    from conversion import gemma, qwen

    with torch.inference_mode():
        for name, dtype in FILES.items():
            if sys.argv[2:] and name not in sys.argv[2:]:
                continue
            model_class = qwen.Qwen3_5TextModel if name.startswith("qwen3_5") else gemma.Gemma4Model
            model_class.set_vocab = set_vocab
            convert(model_class, gguf, name, dtype)


if __name__ == "__main__":
    main()
