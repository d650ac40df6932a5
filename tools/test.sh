#!/usr/bin/env bash
# Runs every test: `make test` sets the machine up and calls this. Prints the name and the time of each step.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-auto}
started=$SECONDS

failed=$(mktemp -d)
skipped=$(mktemp)
beside=$(mktemp -d)
trap 'for group in "$beside"/*.group; do
    # Another process may have the number of one that has ended.
    [ ! -e "$group" ] || [ -e "${group%.group}.status" ] || kill -- "-$(cat "$group")" 2> /dev/null || true
  done
  rm -rf "$failed" "$skipped" "$beside"' EXIT

# step NAME COMMAND...: runs a command. If it fails, keeps its output for the summary, and goes on.
step() {
  local name=$1 begin=$SECONDS said
  shift
  said=$failed/$name
  printf '\n== %s\n' "$name"
  if "$@" 2>&1 | tee "$said" >(grep -o 'skipped: .*' >> "$skipped"); then rm "$said"; fi
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

# finish NAME: waits for what was started under this name, prints what it said, and fails if it failed.
finish() {
  while [ ! -e "$beside/$1.status" ] && kill -0 "$(cat "$beside/$1.group")" 2> /dev/null; do sleep 1; done
  cat "$beside/$1"
  # Without a status it was killed.
  return "$(cat "$beside/$1.status" || echo 1)"
}

# The simulation, and the builds of later steps, with what the tests leave of the processors, because they
# mostly wait. What does not build is reported by its own step.
simulate_and_build() {
  local simulated=0
  renice -n 19 "$BASHPID" > /dev/null && chrt --idle --pid 0 "$BASHPID"
  # With --workspace: for one package cargo would select other features, and build its dependencies again.
  cargo test -q --workspace --test simulation -- --seconds 120 || simulated=$?
  BUILD_ONLY=1 tools/sanitize.sh address > "$beside/builds" 2>&1
  [ ! -d "$library" ] || BUILD_ONLY=1 tools/sanitize.sh thread >> "$beside/builds" 2>&1
  cargo test -q --release -p plimsoll-libgc --test stress --no-run >> "$beside/builds" 2>&1
  fuzz/run.sh 0 >> "$beside/builds" 2>&1
  return "$simulated"
}

# tests LANE ARGUMENTS...: the tests of one lane; see lane.sh.
tests() {
  local lane=$1
  shift
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/tools/lane.sh $lane" \
    CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$PWD/tools/lane.sh $lane" \
    cargo test --workspace --no-fail-fast "$@"
}

# Only the tests of markers that work in parallel: all tests take minutes (make sanitize).
markers_together() {
  if [ ! -d "$library" ]; then
    echo "skipped: no source of Rust's standard library (rustup component add rust-src)"
    return
  fi
  ONLY=crew tools/sanitize.sh thread
}

# Builds in the profile of the tests, so that the tests below have to build documentation tests only.
step "build" cargo build --profile test --workspace --all-targets
step "programs of the tests" make -s -C bench/programs
[ -z "$(ls "$failed")" ] || { summary; exit 1; }
start "simulation" simulate_and_build
start "quiet" tests quiet --lib --bins --tests
step "tests" tests pressed
step "tests without pressure, beside the others" finish "quiet"
step "two minutes of simulation, beside the tests" finish "simulation"
start "guile" cargo test -q --release -p plimsoll-libgc --test stress -- --seconds 40 --program guile
step "a minute and a half of stress" cargo test -q --release -p plimsoll-libgc --test stress -- --seconds 90
step "the same, with Guile, beside it" finish "guile"
step "address sanitizer" tools/sanitize.sh address
step "thread sanitizer, of markers together" markers_together
step "fuzz targets, briefly" fuzz/run.sh 10
printf '\n== all of it: %d s; skipped here: %d\n' $((SECONDS - started)) "$(wc -l < "$skipped")"
cat "$skipped"
[ -z "$(ls "$failed")" ] || { summary; exit 1; }
