#!/usr/bin/env bash
# Cargo's RUSTC_WORKSPACE_WRAPPER for fuzzing: compiles this workspace's crates with the coverage that libFuzzer steers by.
# Dependencies stay as they are, so they are shared with the ordinary build.
set -euo pipefail
exec "$@" --cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table
