#!/bin/bash
# fuzz/run.sh [SECONDS]: runs every fuzz target for that long (10). The flags are those of cargo-fuzz without
# a sanitizer, so that coverage needs no nightly compiler.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-10}
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Ccodegen-units=1"
cargo build --quiet --release --target "$target"
out=${CARGO_TARGET_DIR:-target}/$target/release
for name in messages config page summary superpages; do
    # New inputs go to a directory that is removed. An input that is worth keeping is added to corpus/ by
    # hand.
    found=$(mktemp -d)
    echo "fuzzing $name for $seconds s"
    status=0
    "$out/$name" -max_total_time="$seconds" -max_len=4096 -timeout=60 -rss_limit_mb=1024 -verbosity=0 \
        -print_final_stats=1 -artifact_prefix="$found/" "$found" "corpus/$name" >"$found.log" 2>&1 || status=$?
    grep -E "stat::number_of_exec|ERROR|panicked" "$found.log" || true
    rm -f "$found.log"
    if [ "$status" -ne 0 ]; then
        echo "fuzzing $name failed; the input is in $found" >&2
        exit 1
    fi
    rm -rf "$found"
done
