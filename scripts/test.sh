#!/usr/bin/env bash
# Everything the tests need, then the tests: format, lints, build, documentation, assets, tests, kernels, a little fuzzing, the
# quickstart without a network.
#
#   scripts/test.sh            all of it
#   scripts/test.sh -- ARGS    only `cargo test --release ARGS`
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

if [ "${1:-}" = "--" ]; then
    shift
    need_build_tools
    exec cargo test --release "$@"
fi

need_build_tools
need unshare util-linux
need npm npm

say "format"
cargo fmt --all --check

say "build"
cargo build --release --locked

say "lints"
cargo clippy --release --locked --workspace --all-targets -- -D warnings

say "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps

say "test assets"
scripts/fetch_test_assets.sh

say "tests"
cargo test --release --locked

say "kernels on the emulator"
cargo test --release --locked -p longwick-kernels --features emu

scripts/check_kernels.sh --gate

say "types of the CUDA build"
scripts/check_cuda.sh

say "the engine on the emulator"
cargo test --release --locked --features emu --test device

scripts/fuzz.sh 10

say "quickstart without a network"
scripts/quickstart.sh --fetch-only
unshare -n scripts/quickstart.sh --offline
say "all passed"
