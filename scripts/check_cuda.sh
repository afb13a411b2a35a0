#!/usr/bin/env bash
# What the Rust compiler says of the CUDA build, on a machine without a CUDA toolkit.
#
# Cargo runs the build scripts even of a check, and candle's compiles its kernels for half an hour. Types do not depend on them, so
# a stand-in for nvcc leaves empty files here, in a target folder of its own, of which nothing can be linked or run. Kernels are
# compiled by scripts/check_kernels.sh (ours) and scripts/build_cuda.sh (all).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

need_build_tools
export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/cuda-types"
mkdir -p "$CARGO_TARGET_DIR/bin"
cat >"$CARGO_TARGET_DIR/bin/nvcc" <<'EOF'
#!/usr/bin/env bash
# Leaves an empty file for each one asked for.
while [ $# -gt 0 ]; do
    case "$1" in
    --output-directory) folder="$2" && shift ;;
    -o) : >"$2" && shift ;;
    *.cu) source="$1" ;;
    esac
    shift
done
[ -z "${folder:-}" ] || : >"$folder/$(basename "$source" .cu).ptx"
EOF
chmod +x "$CARGO_TARGET_DIR/bin/nvcc"
export NVCC="$CARGO_TARGET_DIR/bin/nvcc" CUDA_HOME="$CARGO_TARGET_DIR" CUDA_COMPUTE_CAP=80 CUDARC_CUDA_VERSION=13000
cargo clippy --release --locked --features cuda --lib --bins -- -D warnings
cargo clippy --release --locked --features cuda,emu --lib --test device -- -D warnings
cargo clippy --release --locked -p longwick-kernels --features cuda,emu --all-targets -- -D warnings
