#!/usr/bin/env python3
"""Measures how far plain bf16 lies from f32 on the tiny checkpoints: what a device in bf16 is held against.

Needs torch and transformers; CI never runs it. For each checkpoint, transformers' own forward pass with weights and activations in
bf16 and eager attention, beside the f32 logits of its `reference.json`:

    python3 scripts/export_bf16_errors.py [--out tests/fixtures/bf16.json] NAME=FOLDER ...

    {"transformers", "torch", "errors": {NAME: [{"worst", "mean"} of each case]}}

`worst` is the largest error of a log-probability after the case's last token, `mean` the root of the mean square.
"""

import argparse
import json
import pathlib

import torch
import transformers


def errors(folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager")
    for case in json.loads((folder / "reference.json").read_text())["cases"]:
        with torch.no_grad():
            found = model(torch.tensor([case["token_ids"]])).logits[0, -1]
        expected = torch.tensor(case["last_logits"], dtype=torch.float64)
        error = (found.double().log_softmax(0) - expected.log_softmax(0)).abs()
        yield {"worst": float(f"{error.max():.3e}"), "mean": float(f"{error.square().mean().sqrt():.3e}")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/fixtures/bf16.json"))
    parser.add_argument("checkpoints", nargs="+", metavar="NAME=FOLDER")
    arguments = parser.parse_args()
    pairs = [checkpoint.split("=", 1) for checkpoint in arguments.checkpoints]
    found = {name: list(errors(pathlib.Path(folder))) for name, folder in pairs}
    text = json.dumps({"transformers": transformers.__version__, "torch": torch.__version__, "errors": found}, indent=1)
    arguments.out.write_text(text + "\n")


main()
