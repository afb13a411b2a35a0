# Shared by the scripts beside it; source it.

# Everything that is built or downloaded lives outside the checkout, so that a second run is quick.
export LONGWICK_CACHE="${LONGWICK_CACHE:-$HOME/.cache/longwick}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$LONGWICK_CACHE/target}"
longwick_root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

say() { printf '\n== %s\n' "$*"; }

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# need COMMAND PACKAGE: installs PACKAGE by apt where COMMAND is missing.
need() {
    command -v "$1" >/dev/null 2>&1 && return 0
    install_package "$2" "$1"
    command -v "$1" >/dev/null 2>&1 || die "$2 was installed but $1 is still missing"
}

# install_package PACKAGE WHAT: by apt, for the sake of WHAT.
install_package() {
    command -v apt-get >/dev/null 2>&1 || die "$2 is missing; install it (Debian package $1) and run this again"
    say "installing $1"
    local sudo=""
    [ "$(id -u)" -eq 0 ] || sudo="sudo"
    $sudo apt-get update -q >/dev/null
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$1" >/dev/null
}

need_rust() {
    [ -f "$HOME/.cargo/env" ] && . "$HOME/.cargo/env"
    command -v cargo >/dev/null 2>&1 || die "cargo is missing; install Rust 1.95 or newer (https://rustup.rs) and run this again"
}

need_build_tools() {
    need_rust
    need cc build-essential
    need c++ build-essential
    need python3 python3
    python3 -m pip --version >/dev/null 2>&1 || need pip3 python3-pip
}

# use_nvcc [WHEEL...]: a CUDA toolkit, and its compiler in PATH: CUDA_HOME's, else that of nvcc in PATH, else CUDA 13.0 out of PyPI
# wheels, kept in the cache. The WHEELs are what else of it is needed.
use_nvcc() {
    if [ -z "${CUDA_HOME:-}" ] && command -v nvcc >/dev/null; then
        CUDA_HOME="$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")"
    fi
    if [ -z "${CUDA_HOME:-}" ]; then
        local venv="$LONGWICK_CACHE/nvcc-13.0"
        python3 -c 'import ensurepip' 2>/dev/null || install_package python3-venv "python3 -m venv"
        [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"
        "$venv/bin/pip" install -q 'nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-crt==13.0.*' \
            'nvidia-nvvm==13.0.*' 'nvidia-cuda-cccl==13.0.*' "$@"
        CUDA_HOME="$("$venv/bin/python" -c 'import nvidia, pathlib; print(pathlib.Path(list(nvidia.__path__)[0]) / "cu13")')"
    fi
    export CUDA_HOME PATH="$CUDA_HOME/bin:$PATH"
}

longwick() { "$CARGO_TARGET_DIR/release/longwick" "$@"; }
