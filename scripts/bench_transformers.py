"""Prefill speed of Hugging Face transformers in float32 on a GGUF file: one timed forward pass a length, as JSON.

Usage: bench_transformers.py MODEL.gguf 512,4096
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

path, lengths = Path(sys.argv[1]), [int(length) for length in sys.argv[2].split(",")]
torch.set_num_threads(os.cpu_count() or 1)
model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
model.eval()
vocab = model.config.get_text_config().vocab_size
results = []
with torch.inference_mode():
    model(torch.arange(16)[None] % vocab, logits_to_keep=1)
    for length in lengths:
        ids = (torch.arange(length) * 2654435761 >> 7) % vocab
        start = time.perf_counter()
        model(ids[None], logits_to_keep=1)
        seconds = time.perf_counter() - start
        results.append({"length": length, "seconds": seconds, "tokens_per_second": length / seconds})
json.dump({"results": results}, sys.stdout)
