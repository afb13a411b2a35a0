#!/bin/sh
# Fetches the published protocol conpact-0.1.0 (MIT) into longwick's cache. Its texts never enter this repository.
#
#   scripts/fetch_protocol.sh [--repo DIR] [--wheel FILE]
#
#   --repo DIR    also take the extraction and constraint-targeted prompts of a compaction-integrity checkout; the
#                 checkout's prompts.py is run to do so
#   --wheel FILE  use this wheel instead of downloading one with pip
#
# Needs python3, with pip unless --wheel is given. Writes ${LONGWICK_CACHE:-$HOME/.cache/longwick}/protocols/conpact-0.1.0.json.
set -eu

name=conpact-0.1.0
sha256=67fc0670f11045a8121746ee54044db2f4a0404b16c3d36e2f263257487bed8e
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
repo=
wheel=

fail() {
    echo "fetch_protocol.sh: $*" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
        --repo | --wheel)
            [ $# -ge 2 ] || fail "$1 needs a value"
            if [ "$1" = --repo ]; then repo=$2; else wheel=$2; fi
            shift 2
            ;;
        -h | --help)
            sed -n '2,10s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *) fail "unknown argument $1; see --help" ;;
    esac
done
[ -z "$repo" ] || [ -d "$repo" ] || fail "$repo is not a folder"
command -v python3 >/dev/null || fail "python3 is not installed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

if [ -z "$wheel" ]; then
    python3 -m pip --version >/dev/null 2>&1 || fail "python3 has no pip; install it, or give the wheel with --wheel"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" \
        conpact==0.1.0 || fail "pip could not download conpact 0.1.0"
    wheel=$work/conpact-0.1.0-py3-none-any.whl
fi
[ -f "$wheel" ] || fail "$wheel is not there"
found=$(python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$wheel")
[ "$found" = "$sha256" ] || fail "$wheel has sha256 $found, expected $sha256; nothing was changed"

python3 -m zipfile -e "$wheel" "$work/package"
out=${LONGWICK_CACHE:-$HOME/.cache/longwick}/protocols/$name.json
python3 "$here/export_protocol.py" --package "$work/package" --name "$name" --sha256 "$sha256" --out "$out" \
    ${repo:+--repo "$repo"}
echo "wrote $out"
