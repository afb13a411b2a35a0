#!/usr/bin/env bash
# Builds longwick for NVIDIA GPUs, also on a machine that has neither a GPU nor a CUDA toolkit.
#
#   scripts/build_cuda.sh              for the GPU of this machine (nvidia-smi says which)
#   CUDA_COMPUTE_CAP=90 scripts/build_cuda.sh     for an H100 or H200 (89: RTX 40; 86: RTX 30; 80: A100; 120: RTX 50)
#
# Our kernels are built for sm_80 to sm_120, candle's for the one architecture that is named: such a binary serves that one alone.
# The first build takes half an hour on two cores, nearly all of it candle's kernels.
#
# The toolkit is CUDA_HOME's, else that of nvcc in PATH, else CUDA 13.0 from PyPI wheels (1 GB, kept in the cache). candle links the
# driver and CUDA's libraries when it is built; where the driver is absent, a library of its functions' names stands in for it at
# the link, and the binary asks for the real one (libcuda.so.1) when it starts.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

need_build_tools

if [ -z "${CUDA_COMPUTE_CAP:-}" ] && command -v nvidia-smi >/dev/null; then
    CUDA_COMPUTE_CAP="$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)" ||
        CUDA_COMPUTE_CAP=""
fi
[ -n "${CUDA_COMPUTE_CAP:-}" ] || die "no GPU here says its architecture; name it: CUDA_COMPUTE_CAP=89 scripts/build_cuda.sh"
export CUDA_COMPUTE_CAP

# Names without versions for the linker, and a stand-in for a driver that is not here.
need_link_names() {
    local links="$LONGWICK_CACHE/cuda-links" name found
    mkdir -p "$links"
    for name in cudart cublas cublasLt curand nvrtc; do
        # Loops of links make find fail, whatever it found.
        found="$({ find -L "$CUDA_HOME" -name "lib$name.so*" 2>/dev/null || true; } | sort | tail -n 1)"
        [ -n "$found" ] || die "$CUDA_HOME has no lib$name.so; install CUDA's libraries there, or unset CUDA_HOME"
        ln -sf "$found" "$links/lib$name.so"
    done
    found="$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p | sed -n 's/.*libcuda\.so\.1 .*=> //p' | head -n 1)"
    if [ -n "$found" ]; then
        ln -sf "$found" "$links/libcuda.so"
    else
        driver_names | sed 's/.*/void &(void) {}/' | cc -shared -x c - -o "$links/libcuda.so" -Wl,-soname,libcuda.so.1
    fi
    # Unlike flags for rustc, this makes cargo build nothing anew.
    export LIBRARY_PATH="$links${LIBRARY_PATH:+:$LIBRARY_PATH}"
}

# The driver's functions that cudarc names.
driver_names() {
    local manifest
    manifest="$(cargo metadata --format-version 1 --locked --features cuda |
        python3 -c 'import json, sys; print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "cudarc"))')"
    grep -ohE 'fn cu[A-Z][A-Za-z0-9_]*' "$(dirname "$manifest")/src/driver/sys/"*.rs | sed 's/^fn //' | sort -u
}

use_nvcc 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cublas==13.0.*' nvidia-curand
need_link_names
say "building for sm_$CUDA_COMPUTE_CAP with $("$CUDA_HOME/bin/nvcc" --version | sed -n 's/^Cuda compilation tools, //p')"
cargo build --release --locked --features cuda
say "built $CARGO_TARGET_DIR/release/longwick; it needs libcuda.so.1 (the driver), libcudart, libcublas and libcurand to start"
