#!/usr/bin/env bash
# From a fresh checkout to a first result: builds longwick, fetches a small model, and runs the main job on a sample
# history. A few minutes on two cores once built; the first build takes ten to fifteen.
#
#   scripts/quickstart.sh               all of it
#   scripts/quickstart.sh --fetch-only  build and fetch, then stop
#   scripts/quickstart.sh --offline     run on what was built and fetched before, without a network
set -euo pipefail
. "$(dirname "$0")/lib.sh"
cd "$longwick_root"

mode="${1:-all}"
case "$mode" in
all | --fetch-only | --offline) ;;
*) die "unknown option $mode (known: --fetch-only, --offline)" ;;
esac

if [ "$mode" != "--offline" ]; then
    need_build_tools
    say "building (the first time takes ten to fifteen minutes on two cores)"
    cargo build --release --locked
    say "fetching SmolLM2 135M (94 MB)"
    longwick models fetch smollm2-135m
fi
[ "$mode" = "--fetch-only" ] && exit 0

say "running configs/quickstart.toml"
longwick run configs/quickstart.toml
