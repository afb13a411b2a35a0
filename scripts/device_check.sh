#!/usr/bin/env bash
# What only a GPU can show, in one prepared run of under eight minutes: the kernels against float64 and the emulator, models against
# the CPU, compute-sanitizer, and times beside the floors of `longwick bench attention`.
#
#   CUDA_COMPUTE_CAP=90 scripts/device_check.sh --pack DIR    on a machine that can build: programs go to DIR (needs no GPU)
#   scripts/device_check.sh --run DIR [--out DIR]             on the machine with the GPU: needs the driver, CUDA's libraries, this
#                                                             repository and DIR; no cargo, no network
#   scripts/device_check.sh --rehearse DIR [--out DIR]        the same steps on the emulator and the CPU, but for times; packed
#                                                             programs need the driver's and CUDA's libraries even so
#
# Writes OUT/device_check.json and prints one table. Exit code 1 when any step failed; the rest is still done.
set -uo pipefail
usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }
. "$(dirname "$0")/lib.sh"

mode="${1:-}"
dir="${2:-}"
out="$longwick_root/device_check"
case "$mode" in
--pack | --run | --rehearse) [ -n "$dir" ] || die "$mode needs a folder" ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac
[ "${3:-}" != "--out" ] || out="${4:?--out needs a folder}"
# Names that were meant from where the script was called.
dir="$(realpath -m "$dir")"
out="$(realpath -m "$out")"
cd "$longwick_root" || die "no $longwick_root"

# A test program that cargo says it built, which may be older than another build's of that name.
program() {
    local found
    found="$(sed -n "s|^ *Executable tests/$1[./].*(\(.*\))\$|\1|p" "$built" | tail -n 1)"
    [ -x "$found" ] || die "cargo names no program of the test $1"
    printf '%s' "$found"
}

pack() {
    set -e
    local built
    built="$(mktemp)"
    # For the one card, so that the programs stay small.
    export LONGWICK_CUDA_ARCHITECTURES="${CUDA_COMPUTE_CAP:?names the card, as for scripts/build_cuda.sh}"
    scripts/build_cuda.sh
    use_nvcc
    export LIBRARY_PATH="$LONGWICK_CACHE/cuda-links${LIBRARY_PATH:+:$LIBRARY_PATH}"
    say "programs of the kernels"
    cargo test --release --locked -p longwick-kernels --features emu,cuda --no-run 2>&1 | tee "$built"
    cargo build --release --locked -p longwick-kernels --features cuda --example time_kernels
    say "programs of the engine"
    cargo test --release --locked --features emu,cuda --test device --no-run 2>&1 | tee -a "$built"
    cargo build --release --locked --example synthetic_checkpoint
    mkdir -p "$dir"
    for test in elementwise kv_write attention agreement device; do
        cp "$(program "$test")" "$dir/$test"
    done
    rm "$built"
    cp "$CARGO_TARGET_DIR/release/longwick" "$CARGO_TARGET_DIR/release/examples/time_kernels" \
        "$CARGO_TARGET_DIR/release/examples/synthetic_checkpoint" "$dir/"
    strip "$dir"/*
    say "packed $(du -sh "$dir" | cut -f1) into $dir"
}

failed=0
results=""
# Seconds for all steps together.
budget=470

# step NAME SECONDS COMMAND...: runs with a limit, keeps what it says, and notes how it ended.
step() {
    local name="$1" limit="$2" start end status left
    shift 2
    start="$(date +%s)"
    left=$((began + budget - start))
    if [ "$left" -le 0 ]; then
        skip "$name" "the $budget seconds of the whole run are over"
        failed=1
        return
    fi
    [ "$limit" -le "$left" ] || limit="$left"
    # A shell of its own, so that functions have limits too.
    timeout "$limit" bash -c '"$@"' _ "$@" >"$out/$name.log" 2>&1
    status=$?
    end="$(date +%s)"
    case "$status" in
    0) printf '%-28s ok       %4d s\n' "$name" "$((end - start))" ;;
    124) printf '%-28s TIME OUT %4d s, see %s\n' "$name" "$limit" "$out/$name.log" ;;
    *) printf '%-28s FAILED   %4d s, see %s\n' "$name" "$((end - start))" "$out/$name.log" && tail -n 5 "$out/$name.log" ;;
    esac
    [ "$status" -eq 0 ] || failed=1
    results="$results${results:+, }{\"step\": \"$name\", \"status\": $status, \"seconds\": $((end - start))}"
}

skip() {
    printf '%-28s skipped: %s\n' "$1" "$2"
    results="$results${results:+, }{\"step\": \"$1\", \"skipped\": \"$2\"}"
}

# tests PROGRAM ARG...: a test program of which a part runs; that there is no such part is no success.
tests() {
    local said status
    said="$("$@" 2>&1)"
    status=$?
    printf '%s\n' "$said"
    [ "$status" -ne 0 ] || grep -q '^test result: ok\. [1-9]' <<<"$said" || { echo "no test ran" && return 1; }
    return "$status"
}

real() { "$dir/longwick" models verify "$1" && tests "$dir/device" --ignored --nocapture --exact "real::${1//-/_}"; }

sanitize() {
    local tool="$1"
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$dir/elementwise" --test-threads 1 &&
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$dir/kv_write" --test-threads 1 --skip offsets &&
        compute-sanitizer --tool "$tool" --error-exitcode 9 "$dir/attention" --test-threads 1 branches_read
}

run() {
    began="$(date +%s)"
    mkdir -p "$out"
    # What an earlier run left may be another build's.
    rm -f "$out"/{device_check,prefill,times}.json "$out"/{longwick,torch}.jsonl
    # CUDA's first GPU is then nvidia-smi's, whose name and architecture count.
    export CUDA_DEVICE_ORDER=PCI_BUS_ID
    export LONGWICK_REPOSITORY="$longwick_root"
    if [ "$device" = cuda ]; then
        command -v nvidia-smi >/dev/null || die "no NVIDIA driver here; --rehearse runs on the emulator"
        nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
        export LONGWICK_KERNEL_DEVICE=cuda LONGWICK_TEST_DEVICE=cuda
        step doctor 20 "$dir/longwick" doctor
    fi
    step kernels_elementwise 60 "$dir/elementwise" --test-threads 1
    step kernels_kv_write 60 "$dir/kv_write" --test-threads 1
    step kernels_attention 180 "$dir/attention" --test-threads 1
    if [ "$device" = cuda ]; then
        step kernels_agreement 60 "$dir/agreement" --test-threads 1
    else
        skip kernels_agreement "no GPU"
    fi
    # Chunks and batches change nothing where every product is ours; candle's products are not batch-invariant.
    step tiny_models 120 tests "$dir/device" parity
    local model
    for model in gemma3-270m smollm2-135m; do
        case "$("$dir/longwick" models verify "$model" 2>&1)" in
        *"is not on this machine"*) skip "real_$model" "not on this machine" ;;
        *) step "real_$model" 150 real "$model" ;;
        esac
    done
    if [ "$device" != cuda ]; then
        skip sanitizer "no GPU"
        skip times "no GPU"
        return
    fi
    if command -v compute-sanitizer >/dev/null; then
        step sanitizer_memcheck 90 sanitize memcheck
        step sanitizer_racecheck 90 sanitize racecheck
    else
        skip sanitizer "compute-sanitizer is not in PATH"
    fi
    times
}

times() {
    local timings="$out/longwick.jsonl" card
    step times_kernels 120 bash -c "'$dir/time_kernels' >'$timings'"
    if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
        step times_torch 90 bash -c "python3 scripts/time_sdpa.py >'$out/torch.jsonl'"
        timings="$timings,$out/torch.jsonl"
    else
        skip times_torch "no PyTorch with CUDA"
    fi
    card="$(card_name)"
    if [ -z "$card" ]; then
        skip floors "the peaks of no GPU like this one are known"
        return
    fi
    "$dir/longwick" bench attention --timings "$timings" --card "$card" || failed=1
    "$dir/longwick" bench attention --timings "$timings" --card "$card" --json >"$out/times.json" || failed=1
    step synthetic_checkpoint 60 "$dir/synthetic_checkpoint" "$out/synthetic" 4
    step times_prefill 120 bash -c \
        "'$dir/longwick' bench prefill -m '$out/synthetic' --device cuda --kv-dtype bf16 --chunk 2048 --lengths 8192,32768 --card '$card' --json >'$out/prefill.json'"
    # Of the stack of layers: one line a length.
    sed -n 's/^ *"\(length\|seconds\|tokens_per_second\|floor_seconds\)": \([0-9.]*\).*/\1 \2/p' "$out/prefill.json" | paste -d ' ' - - - -
    rm -rf "$out/synthetic"
}

# The card of `longwick bench attention` that has this GPU's name; else the one of the same architecture.
card_name() {
    case "$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)" in
    *3090*) echo rtx-3090 ;;
    *4090*) echo rtx-4090 ;;
    *5090*) echo rtx-5090 ;;
    *"6000 Ada"*) echo rtx-6000-ada ;;
    *"PRO 6000"*) echo rtx-pro-6000 ;;
    *A100*) echo a100-80gb ;;
    *H200*) echo h200 ;;
    *)
        case "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1)" in
        8.0) echo a100-80gb ;;
        8.6) echo rtx-3090 ;;
        8.9) echo rtx-4090 ;;
        9.0) echo h200 ;;
        12.*) echo rtx-5090 ;;
        esac
        ;;
    esac
}

if [ "$mode" = --pack ]; then
    pack
    exit 0
fi
[ -d "$dir" ] || die "no folder $dir"
device=cuda
[ "$mode" = --run ] || device=emu
export dir out device
export -f tests real sanitize
run
printf '{"device": "%s", "steps": [%s]}\n' "$device" "$results" >"$out/device_check.json"
say "$out/device_check.json"
exit "$failed"
