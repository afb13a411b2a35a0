#!/usr/bin/env bash
# The kernels' tests that need more than cargo: all of them on the emulator, again under sanitizers, and the resource gate.
#
#   scripts/check_kernels.sh            emulator, sanitizers, resource gate
#   scripts/check_kernels.sh --gate     only the resource gate (nvcc from CUDA_HOME, else from PyPI wheels)
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

# What the gate reads. It takes minutes, so that it is left out where none of this changed since it passed.
gate_inputs() {
    cat scripts/check_kernels.sh kernels/RESOURCES.md kernels/resources.* $(find kernels/include kernels/csrc -type f | sort)
}

gate() {
    local passed="$LONGWICK_CACHE/kernel-gate/$(gate_inputs | sha256sum | cut -c1-64)"
    if [ -e "$passed" ]; then
        echo "unchanged since they passed"
        return
    fi
    use_nvcc nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
    python3 kernels/resources.py --check
    mkdir -p "$(dirname "$passed")"
    touch "$passed"
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
gate
