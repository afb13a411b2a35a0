#!/usr/bin/env bash
# What the Rust compiler says of the CUDA build, on a machine without a CUDA toolkit.
#
# Cargo runs the build scripts even of a check, and candle's compiles its kernels for half an hour. Types do not depend on them, so
# a stand-in for nvcc leaves empty files here, of which nothing can be linked or run. Kernels are compiled by
# scripts/check_kernels.sh (ours) and scripts/build_cuda.sh (all).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

need_build_tools
stand_in="$CARGO_TARGET_DIR/stand-in"
mkdir -p "$stand_in/bin"
cat >"$stand_in/bin/nvcc" <<'EOF'
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
chmod +x "$stand_in/bin/nvcc"
export NVCC="$stand_in/bin/nvcc" CUDA_HOME="$stand_in" CUDA_COMPUTE_CAP=80 CUDARC_CUDA_VERSION=13000
# A level of optimisation that no build has keeps what the stand-in leaves out of it; packages that do not depend on these are shared.
apart=()
for package in cudarc candle-kernels longwick-kernels; do
    apart+=(--config "profile.release.package.$package.opt-level=\"z\"")
done
lint() { cargo clippy --release --locked "${apart[@]}" "$@" -- -D warnings; }
lint --features cuda --lib --bins
lint --features cuda,emu --lib --test device
lint -p longwick-kernels --features cuda,emu --all-targets
