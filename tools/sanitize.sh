#!/usr/bin/env bash
# The heap's tests under sanitizers: tools/sanitize.sh address | thread ... (ONLY=part of their names for some)
# What they see is the collector's own code, with the model tests' scripted kernel: markers at work together, stacks,
# summaries, metadata. They do not see the C programs that run over libgc. The stable toolchain brings what they need, but for the
# thread sanitizer's standard library, which is built here (tools/setup.sh sanitize).
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
base=${CARGO_TARGET_DIR:-target}
export RUSTC_BOOTSTRAP=1
for sanitizer in "$@"; do
  export CARGO_TARGET_DIR=$base/sanitize-$sanitizer RUSTFLAGS="-Zsanitizer=$sanitizer"
  # Heaps live as long as the process.
  export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1
  library=()
  [ "$sanitizer" != thread ] || library=(-Zbuild-std)
  cargo test -q "${library[@]}" --target "$host" -p plimsoll-heap --lib --test heap -- ${ONLY:+"$ONLY"}
done
