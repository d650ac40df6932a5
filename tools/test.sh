#!/usr/bin/env bash
# Runs every test: `make test` sets the machine up and calls this. Prints the name and the time of each step.
# With the argument `every-case` it runs all cases of those tests that it else runs in part, and no other test
# (`make test-machines`); with `check` what needs no memory pressure and takes seconds (`make check`).
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
# The files of cargo for incremental builds take longer to write than they save, unless there are some.
[ -d "${CARGO_TARGET_DIR:-target}/debug/incremental" ] || export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
started=$SECONDS

failed=$(mktemp -d)
skipped=$(mktemp)
times=$(mktemp)
beside=$(mktemp -d)
trap 'for group in "$beside"/*.group; do
    # Another process may have the number of one that has ended.
    [ ! -e "$group" ] || [ -e "${group%.group}.status" ] || kill -- "-$(cat "$group")" 2> /dev/null || true
  done
  rm -rf "$failed" "$skipped" "$times" "$beside"' EXIT

# step NAME COMMAND...: runs a command. If it fails, keeps its output for the summary, and goes on. Notes how
# long each suite took. If it says so several times, the last one counts: the others are of what it ran.
step() {
  local name=$1 begin=$SECONDS said status=0
  shift
  said=$failed/$name
  printf '\n== %s\n' "$name"
  "$@" 2>&1 | tee "$said" >(grep -o 'skipped: .*' >> "$skipped") || status=$?
  awk '
    function note() { if (suite) printf "%8.1f s  %s\n", took, suite }
    /^suite / { note(); suite = $2; took = 0 }
    /^test result: .*finished in/ { took = $NF }
    END { note() }
  ' "$said" >> "$times"
  [ "$status" != 0 ] || rm "$said"
  printf '== %s: %d s\n' "$name" $((SECONDS - begin))
}

# Prints the important lines of each failed step, at the very end: names and panics of failed tests, binaries
# that failed, broken rules. If there are none of these, prints the last lines of the step.
summary() {
  local name
  for name in "$failed"/*; do
    printf '\n== FAILED: %s\n' "${name##*/}"
    awk '
      /^ +Running |^ +Doc-tests / { binary = $0; sub(/^ +/, "", binary) }
      /^---- .* stdout ----$/ { print binary ": " $2; found = 1 }
      /panicked at / { panic = 2 }
      panic-- > 0 { print "    " $0 }
      /^error|didn.t exit successfully|^    `-p / || /rule `.*broken|^replay: |^fuzzing .* failed/ {
        print
        found = 1
      }
      { last[NR % 20] = $0 }
      END { if (!found) for (i = NR + 1; i <= NR + 20; i++) if (i % 20 in last) print last[i % 20] }
    ' "$name"
  done
}

library=$(rustc --print sysroot)/lib/rustlib/src/rust/library

# start NAME COMMAND...: runs a command beside what comes next. `finish NAME` waits for it. It has a process
# group of its own, so that it ends with us.
start() {
  local name=$1
  shift
  set -m
  (set +e; "$@"; echo $? > "$beside/$name.status") < /dev/null &> "$beside/$name" &
  echo $! > "$beside/$name.group"
  set +m
}

# part NAME COMMAND...: a part of a command that runs beside the others. `finish NAME OF` waits for it.
part() {
  local name=$1 begin=$SECONDS
  shift
  local status=0
  "$@" &> "$beside/$name" || status=$?
  printf '(it took %d s beside the others)\n' $((SECONDS - begin)) >> "$beside/$name"
  echo "$status" > "$beside/$name.status"
}

# finish NAME [OF]: waits for what was started under this name, or for this part of it, prints what it said,
# and fails if it failed.
finish() {
  while [ ! -e "$beside/$1.status" ] && kill -0 "$(cat "$beside/${2:-$1}.group")" 2> /dev/null; do
    sleep 1
  done
  cat "$beside/$1"
  # Without a status it was killed.
  return "$(cat "$beside/$1.status" || echo 1)"
}

# Steps that take processors and neither memory nor swap, and the build of a later step. They have the
# processor time that the build and the tests leave: those wait for each other, and for the disk. Builds in
# folders of their own come first, because until all is built the simulation waits for that. A build that
# fails is reported by its own step.
with_the_rest() {
  renice -n 19 "$BASHPID" > /dev/null && chrt --idle --pid 0 "$BASHPID"
  cargo test -q --release -p plimsoll-libgc --test stress --no-run
  part address tools/sanitize.sh address
  part thread markers_together
  # With --workspace: for one package cargo would select other features, and build its dependencies again.
  part simulation cargo test -q --workspace --test simulation -- --seconds 120
  part documentation cargo test -q --workspace --doc
  part fuzz fuzz/run.sh 10
  part aarch64 on_aarch64
}

# tests LANE: the tests of one lane; see lane.sh.
tests() {
  local lane=$1
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/tools/lane.sh $lane" \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/tools/lane.sh $lane" \
    cargo test --workspace --no-fail-fast --lib --bins --tests
}

# The lanes that put nothing under pressure, one after the other: more at once would take processors from the
# tests under pressure, some of which race with the kernel.
without_pressure() {
  local status=0
  tests quiet || status=$?
  tests java || status=$?
  tools/clients.sh test || status=$?
  return "$status"
}

# Only the tests of markers that work in parallel: all tests take minutes (make sanitize).
markers_together() {
  if [ ! -d "$library" ]; then
    echo "skipped: no source of Rust's standard library (rustup component add rust-src)"
    return
  fi
  ONLY=crew tools/sanitize.sh thread
}

# A part of `make test-arm`.
on_aarch64() {
  if [ "$(uname -m)" != aarch64 ] && [ ! -d .cache/arm/usr/lib/jvm ]; then
    echo "skipped: qemu-user or Debian's packages for aarch64 are not there (tools/setup.sh arm)"
    return
  fi
  tools/arm.sh brief
}

[ -n "${1:-}" ] || start "rest" with_the_rest
# Builds in the profile of the tests, so that those within documentation are all that is built below.
step "build" cargo build --profile test --workspace --all-targets
step "programs of the tests" make -s -C bench/programs
[ -z "$(ls "$failed")" ] || { summary; exit 1; }
if [ "${1:-}" = every-case ]; then
  PLIMSOLL_EVERY_CASE=1 step "every case" tests every-case
elif [ "${1:-}" = check ]; then
  step "what needs no pressure" tests check
else
  start "quiet" without_pressure
  start "guests" tests guests
  step "tests" tests pressed
  # It makes swap, so it does not run beside the tests under pressure.
  start "guile" cargo test -q --release -p plimsoll-libgc --test stress -- --seconds 40 --program guile
  step "a minute and a half of stress" cargo test -q --release -p plimsoll-libgc --test stress -- --seconds 90
  step "the same, with Guile, beside it" finish "guile"
  step "tests without pressure, beside the others" finish "quiet"
  step "tests in virtual machines, beside the others" finish "guests"
  step "two minutes of simulation, beside the tests" finish "simulation" "rest"
  step "tests within documentation, beside the tests" finish "documentation" "rest"
  step "address sanitizer, beside the tests" finish "address" "rest"
  step "thread sanitizer, of markers together, beside the tests" finish "thread" "rest"
  step "fuzz targets, briefly, beside the tests" finish "fuzz" "rest"
  step "aarch64 under qemu-user, briefly, beside the tests" finish "aarch64" "rest"
fi
printf '\n== the slowest suites\n'
sort -rn "$times" | awk 'NR <= 20'
printf '\n== all of it: %d s; skipped here: %d\n' $((SECONDS - started)) "$(wc -l < "$skipped")"
cat "$skipped"
[ -z "$(ls "$failed")" ] || { summary; exit 1; }
