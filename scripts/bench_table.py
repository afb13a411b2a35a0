"""Joins what bench_peers.sh measured into one table of tokens per second and ratios.

Usage: bench_table.py FOLDER [--out FILE.json]
"""

import json
import platform
import sys
from pathlib import Path

folder = Path(sys.argv[1])
out = Path(sys.argv[3]) if len(sys.argv) > 3 else None


def longwick(path):
    return {row["length"]: row["tokens_per_second"] for row in json.loads(path.read_text())["results"]}


def llama(path, key):
    rows = json.loads(path.read_text())
    # The fastest of llama-bench's runs, as for longwick.
    return {row[key]: max(row["samples_ts"]) for row in rows}


def rows():
    for path in sorted(folder.glob("*.longwick.prefill.json")):
        model = path.name.split(".longwick.")[0]
        peer = folder / f"{model}.transformers.json"
        hf = longwick(peer) if peer.exists() else {}
        ours, theirs = longwick(path), llama(folder / f"{model}.llama.prefill.json", "n_prompt")
        for length, speed in ours.items():
            yield model, "prefill", length, speed, theirs.get(length), hf.get(length)
        ours = longwick(folder / f"{model}.longwick.decode.json")
        theirs = llama(folder / f"{model}.llama.decode.json", "n_depth")
        for length, speed in ours.items():
            yield model, "decode", length, speed, theirs.get(length), None


def ratio(a, b):
    return f"{a / b:.2f}" if b else "-"


table = list(rows())
print(f"{'model':<14} {'phase':<8} {'length':>7} {'longwick':>9} {'llama.cpp':>9} {'HF':>7} {'vs llama.cpp':>13} {'vs HF':>6}")
for model, phase, length, ours, theirs, hf in table:
    print(
        f"{model:<14} {phase:<8} {length:>7} {ours:>9.1f} {theirs or 0:>9.1f} {hf or 0:>7.1f}"
        f" {ratio(ours, theirs):>13} {ratio(ours, hf):>6}"
    )
if out:
    keys = ("model", "phase", "length", "longwick", "llama_cpp", "transformers")
    record = {"machine": platform.processor() or platform.machine(), "tokens_per_second": [dict(zip(keys, row)) for row in table]}
    out.write_text(json.dumps(record, indent=1) + "\n")
