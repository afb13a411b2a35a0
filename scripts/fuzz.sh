#!/usr/bin/env bash
# Fuzzes the readers of foreign bytes: no input may make them panic, hang or take more than 2 GiB.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]    default: 15 seconds for each target
#
# What is found, and the corpus, stay in ${LONGWICK_CACHE:-$HOME/.cache/longwick}/fuzz.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

seconds="${1:-15}"
shift || true
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || for file in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$file" .rs)"); done

need_build_tools
say "fuzz targets"
RUSTC_WORKSPACE_WRAPPER="$longwick_root/scripts/rustc_coverage.sh" \
    cargo build --release --locked -p longwick-fuzz --bins

# Where to start from: the fixtures of each kind.
seeds_of() {
    case "$1" in
        safetensors) find tests/fixtures/tiny -name '*.safetensors' ;;
        history_json) find tests/fixtures/histories configs/samples -name '*.json' -o -name '*.jsonl' ;;
        parquet) find tests/fixtures/histories -name '*.parquet' ;;
        manifest) find models configs/prompts -name '*.toml' ;;
        run_config) find configs -maxdepth 1 -name '*.toml' ;;
    esac
}

for target in "${targets[@]}"; do
    corpus="$LONGWICK_CACHE/fuzz/$target"
    mkdir -p "$corpus"
    # A header of version 3 with one tensor and one metadata entry announced: mutation seldom finds its way past the magic.
    [ "$target" != gguf ] || printf 'GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0' >"$corpus/seed-header"
    for seed in $(seeds_of "$target"); do
        cp "$seed" "$corpus/seed-$(basename "$(dirname "$seed")")-$(basename "$seed")"
    done
    say "fuzz $target, $seconds seconds"
    log="$LONGWICK_CACHE/fuzz/$target.log"
    "$CARGO_TARGET_DIR/release/fuzz_$target" "$corpus" -max_total_time="$seconds" -rss_limit_mb=2048 \
        -timeout=10 -print_final_stats=1 -artifact_prefix="$LONGWICK_CACHE/fuzz/$target-" >"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        die "$target: see $log and the input beside it"
    }
    grep -E "^stat::number_of_executed_units|^stat::new_units_added|^stat::peak_rss_mb" "$log"
done
say "nothing found"
