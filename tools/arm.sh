#!/usr/bin/env bash
# Checks what we have for aarch64 on a machine of another kind (tools/setup.sh, `arm` and `arm-lint`, prepares
# it): tools/arm.sh lint | pure | programs | java | brief | test
# `lint` is clippy for all crates. The others run tests under qemu-user, which translates the instructions of
# a program and hands its system calls to this machine's kernel: `pure` tests of crates that ask nothing of
# the kernel, `programs` C programs and Guile on the drop-in, `java` the agent in Java programs, `test` all of
# them; `brief` is what `make test` runs.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" = aarch64 ]; then
  echo "this machine is an aarch64: the other targets of make check it"
  exit 0
fi
target=aarch64-unknown-linux-gnu
arm=$PWD/.cache/arm
run=$PWD/tools/arm/run
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")/$target
libraries=$arm/usr/lib/aarch64-linux-gnu:$arm/lib/aarch64-linux-gnu
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$run

compared="allocation chains finalizers links retention roots stacks threads typed"

# tests ARGUMENTS...: properties are tried with fewer values, because all of this is slow.
tests() { PROPTEST_CASES=${PROPTEST_CASES:-32} cargo test --target $target "$@"; }

lint() { cargo clippy --workspace --all-targets --target $target -- -D warnings; }

pure() {
  tests -q --no-fail-fast $(printf -- '-p plimsoll-%s ' unit policy wire decide) --lib
}

# programs [NAMES]: C programs whose output has to be that on Debian's libgc; most of them look what keeps an
# object alive.
programs() {
  export ADDRESSES=0x400000000
  tests --no-fail-fast -p plimsoll-libgc --lib registers
  tests --no-fail-fast -p plimsoll-libgc --test differential -- --exact ${1:-$compared}
  guile
  unset ADDRESSES
}

# Guile on the drop-in, which collects while it works.
guile() {
  local gc=$built/tmp/guile said
  mkdir -p "$gc"
  ln -sfn "$built/debug/deps/libplimsoll_gc.so" "$gc/libgc.so.1"
  said=$(LD_LIBRARY_PATH=$gc:$libraries GUILE_LOAD_PATH=$arm/usr/share/guile/3.0 \
    GUILE_LOAD_COMPILED_PATH=$arm/usr/lib/aarch64-linux-gnu/guile/3.0/ccache \
    "$run" "$arm/usr/bin/guile-3.0" --no-auto-compile -s tools/arm/trees.scm)
  echo "guile: $said"
  [[ $said == "right, "[1-9]*" collections" ]]
}

# The agent in Java programs that check what they allocate: its page has to tell of as many collections as the
# machine's log.
java() {
  local work=$built/tmp/java collector
  mkdir -p "$work"
  cargo build -q --target $target -p plimsoll-agent-jvm --lib
  "$(dirname "$(readlink -f .cache/java17)")/javac" -d "$work" agents/jvm/tests/java/Sums.java
  for collector in Serial Parallel G1; do agent_in "$collector"; done
}

agent_in() {
  local collector=$1 line= page told logged
  coproc sums {
    LD_LIBRARY_PATH=$libraries exec "$run" "$arm/usr/lib/jvm/java-17-openjdk-arm64/bin/java" \
      "-agentpath:$built/debug/libplimsoll_jvm.so" "-XX:+Use${collector}GC" -Xmx96m \
      "-Xlog:gc:file=$work/log" -cp "$work" Sums 20 2
  }
  trap 'kill $sums_PID' EXIT
  printf 'gc\ngc\nrest\n' >&"${sums[1]}"
  while [ "$line" != rests ]; do read -r line <&"${sums[0]}"; done
  page=$(find "/proc/$sums_PID/fd" -lname '*plimsoll-collections*' | head -n 1)
  # Those that collected the whole heap (crates/wire/src/collections).
  told=$(od -An -tu8 -j152 -N8 "$page" | tr -d ' ')
  logged=$(grep -c 'Pause Full' "$work/log")
  printf 'quit\n' >&"${sums[1]}"
  trap - EXIT
  wait "$sums_PID"
  echo "$collector: the agent tells of $told collections of the whole heap, and the log of $logged"
  [ "$told" = "$logged" ] && [ "$told" -ge 2 ]
}

case ${1:-} in
  lint | pure | programs | java) "$1" ;;
  brief)
    tests -q -p plimsoll-unit -p plimsoll-wire -p plimsoll-decide --lib
    programs "retention roots stacks"
    ;;
  test) pure; programs; java ;;
  *) echo "usage: tools/arm.sh lint | pure | programs | java | brief | test" >&2; exit 2 ;;
esac
