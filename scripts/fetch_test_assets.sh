#!/usr/bin/env bash
# Fetches what the tests use beside the repository, each item checked by sha256: two small GGUF models, a
# sentence embedder, three tokenizers, and the published protocol. Needs the release build (scripts/test.sh makes it first).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

assets="${LONGWICK_TEST_ASSETS:-$LONGWICK_CACHE/assets}"
mkdir -p "$assets"
longwick models fetch smollm2-135m
longwick models fetch gemma3-270m
longwick models fetch all-minilm-l6-v2
for file in smollm2-135m/SmolLM2-135M-Instruct.Q4_1.gguf gemma3-270m/gemma-3-270m-q4_k_m.gguf; do
    ln -sfn "$LONGWICK_CACHE/models/$file" "$assets/$(basename "$file")"
done
ln -sfn "$LONGWICK_CACHE/models/all-minilm-l6-v2" "$assets/all-minilm-l6-v2"
scripts/fetch_test_tokenizers.sh
scripts/fetch_protocol.sh
