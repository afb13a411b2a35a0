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
    command -v apt-get >/dev/null 2>&1 || die "$1 is missing; install it (Debian package $2) and run this again"
    say "installing $2"
    local sudo=""
    [ "$(id -u)" -eq 0 ] || sudo="sudo"
    $sudo apt-get update -q >/dev/null
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$2" >/dev/null
    command -v "$1" >/dev/null 2>&1 || die "$2 was installed but $1 is still missing"
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

longwick() { "$CARGO_TARGET_DIR/release/longwick" "$@"; }
