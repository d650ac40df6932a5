#!/bin/bash
# fuzz/run.sh [SECONDS]: runs every fuzz target for that long (10); with 0 it only builds them. The flags are
# those of cargo-fuzz without a sanitizer, so that coverage needs no nightly compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-10}
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
cargo build --quiet --release --target "$target"
[ "$seconds" -gt 0 ] || exit 0
out=${CARGO_TARGET_DIR:-target}/$target/release
names=(messages config page summary superpages proc runtimes pages pinning trace deaths schedules classes
    collections tables)
# Class files of the tests' Java programs. Without a compiler there are those of the corpus.
seeds=$(mktemp -d)
trap 'rm -rf "$seeds"' EXIT
for name in "${names[@]}"; do mkdir "$seeds/$name"; done
if command -v javac >/dev/null; then
    javac -g:none --release 11 -d "$seeds/classes" ../agents/tracer/tests/java/*.java
fi
# As many at a time as there are processors: each target has one of its own.
at_once=$(nproc)

# The timeout is by the clock, and beside the tests a target has only the time of processors that they leave.
# fuzz NAME: runs one target, then prints how it went. New inputs go to a directory that is removed. An input
# that is worth keeping is added to corpus/ by hand.
fuzz() {
    local found status=0
    found=$(mktemp -d)
    "$out/$1" -max_total_time="$seconds" -max_len=4096 -timeout=240 -rss_limit_mb=1024 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$found/" "$found" "corpus/$1" "$seeds/$1" \
        >"$found.log" 2>&1 || status=$?
    # In one piece, because others print at the same time.
    printf 'fuzzed %s for %s s\n%s\n' "$1" "$seconds" \
        "$(grep -E "stat::number_of_exec|ERROR|panicked" "$found.log" || true)"
    rm -f "$found.log"
    if [ "$status" -ne 0 ]; then
        echo "fuzzing $1 failed; the input is in $found" >&2
        return 1
    fi
    rm -rf "$found"
}

for ((first = 0; first < ${#names[@]}; first += at_once)); do
    running=() failed=0
    for name in "${names[@]:first:at_once}"; do
        fuzz "$name" &
        running+=($!)
    done
    for one in "${running[@]}"; do wait "$one" || failed=1; done
    [ "$failed" -eq 0 ] || exit 1
done
