"""Times PyTorch's scaled-dot-product attention on a GPU: the peer of kernels/examples/time_kernels.rs, row for row.

    python scripts/time_sdpa.py [CONTEXT,CONTEXT,...]

PyTorch has no paged cache: keys and values lie in one piece, which is the better case. Prints one JSON row a measurement.
"""

import itertools
import json
import sys

import torch
from torch.nn.functional import scaled_dot_product_attention

KV_HEADS, GROUP, RUNS, LAUNCHES = 4, 8, 5, 8
# Keys and values of so many bytes together take turns, so that no launch finds the one before's in a cache.
TURNING_BYTES = 256 << 20


def fastest_milliseconds(run):
    run()
    best = float("inf")
    for _ in range(RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(LAUNCHES):
            run()
        end.record()
        end.synchronize()
        best = min(best, start.elapsed_time(end) / LAUNCHES)
    return best


def main():
    contexts = [int(word) for word in (sys.argv[1] if len(sys.argv) > 1 else "8192,32768,131072").split(",")]
    for context in contexts:
        for head_dim in (64, 128, 256):
            shape = (1, KV_HEADS, context, head_dim)
            copies = -(-TURNING_BYTES // (2 * 2 * KV_HEADS * context * head_dim))
            pairs = torch.randn((copies, 2, *shape), dtype=torch.bfloat16, device="cuda")
            for phase, queries in (("prefill_chunk", min(2048, context // 2)), ("decode", 1)):
                q = torch.randn((1, KV_HEADS * GROUP, queries, head_dim), dtype=torch.bfloat16, device="cuda")
                # The chunk is the context's end. is_causal would align it with the beginning.
                mask = None
                if queries > 1:
                    from torch.nn.attention.bias import causal_lower_right

                    mask = causal_lower_right(queries, context)
                turns = itertools.cycle(pairs)
                run = lambda: scaled_dot_product_attention(q, *next(turns), attn_mask=mask, enable_gqa=True)
                try:
                    milliseconds = fastest_milliseconds(run)
                except RuntimeError as error:
                    print(f"{phase}, {context} tokens, head size {head_dim}: {error}", file=sys.stderr)
                    continue
                print(
                    json.dumps(
                        {
                            "program": "torch",
                            "phase": phase,
                            "cache": "bf16",
                            "q_heads": KV_HEADS * GROUP,
                            "kv_heads": KV_HEADS,
                            "head_dim": head_dim,
                            "context": context,
                            "queries": queries,
                            "branches": 1,
                            "milliseconds": milliseconds,
                        }
                    )
                )


if __name__ == "__main__":
    main()
