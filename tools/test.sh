#!/usr/bin/env bash
# Every test: `make test` sets the machine up and calls this. Prints what it does and how long it took.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
started=$SECONDS
# What tools/setup.sh fetched; without it the guest's test fetches its own.
kernel=$(find "$PWD/.cache/guest/boot" -name 'vmlinuz-*' 2>/dev/null | sort -V | tail -n 1)
[ -z "$kernel" ] || export PLIMSOLL_GUEST_KERNEL=$kernel

step() {
  local name=$1 begin=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  "$@"
  printf '== %s: %d s\n' "$name" $((SECONDS - begin))
}

features=plimsoll-kernel/testing
step "build" cargo build --workspace --all-targets --features "$features"
step "programs of the tests" make -s -C bench/programs
step "tests" cargo test --workspace --features "$features" --no-fail-fast
step "a minute of simulation" cargo test -q -p plimsoll-broker --test simulation -- --seconds 60
step "fuzz targets, briefly" fuzz/run.sh 10
printf '\n== all of it: %d s\n' $((SECONDS - started))
