#!/usr/bin/env bash
# The kernels' tests that need more than cargo: all of them on the emulator, again under sanitizers, and the resource gate.
#
#   scripts/check_kernels.sh            emulator, sanitizers, resource gate
#   scripts/check_kernels.sh --gate     only the resource gate (nvcc from CUDA_HOME, else from PyPI wheels)
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

# CUDA 13.0's compiler without a driver or a system toolkit: 200 MB of wheels, kept in the cache.
need_nvcc() {
    [ -n "${CUDA_HOME:-}" ] && return 0
    local venv="$LONGWICK_CACHE/nvcc-13.0"
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv"
        "$venv/bin/pip" install -q 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' \
            'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
    fi
    CUDA_HOME="$("$venv/bin/python" -c 'import nvidia, pathlib; print(pathlib.Path(list(nvidia.__path__)[0]) / "cu13")')"
    export CUDA_HOME
}

need_build_tools

if [ "${1:-}" != "--gate" ]; then
    say "kernels on the emulator"
    cargo test --release --locked -p longwick-kernels --features emu
    say "kernels under sanitizers"
    # Rust links the sanitizer's runtime behind other libraries, where it refuses to run; only the test programs get it preloaded.
    host="$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')"
    export "CARGO_TARGET_${host}_RUNNER=env LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0"
    cargo test --release --locked -p longwick-kernels --features emu-asan -- --skip every_pair
fi

say "resources of the kernels"
need_nvcc
python3 kernels/resources.py --check
