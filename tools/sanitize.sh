#!/usr/bin/env bash
# Runs the heap's tests under sanitizers: tools/sanitize.sh address | thread ... (ONLY=TEXT runs the tests
# whose names contain TEXT, BUILD_ONLY=1 none)
# The sanitizers check the collector's own code, over the scripted kernel of the model tests: markers that
# work in parallel, stacks, summaries, metadata. They do not check the C programs that run on libgc. The
# stable toolchain has all that they need, except a standard library for the thread sanitizer, which is built
# here (tools/setup.sh sanitize fetches its source).
set -euo pipefail
cd "$(dirname "$0")/.."
host=$(rustc -vV | sed -n 's/^host: //p')
base=${CARGO_TARGET_DIR:-target}
export RUSTC_BOOTSTRAP=1
for sanitizer in "$@"; do
  export CARGO_TARGET_DIR=$base/sanitize-$sanitizer RUSTFLAGS="-Zsanitizer=$sanitizer"
  # Heaps live as long as the process, which is no leak.
  export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=1
  library=()
  [ "$sanitizer" != thread ] || library=(-Zbuild-std)
  cargo test -q "${library[@]}" --target "$host" -p plimsoll-heap --lib --test heap \
    ${BUILD_ONLY:+--no-run} -- ${ONLY:+"$ONLY"}
done
