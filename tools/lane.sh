#!/usr/bin/env bash
# Cargo starts each test binary through this script (`CARGO_TARGET_…_RUNNER`), in the directory of its
# package. It runs the tests of the binary that belong to the lane that is asked for:
# lane.sh quiet|java|guests|pressed|check|every-case BINARY ARGUMENTS...
#
# Tests of the lanes quiet and java put nothing under memory pressure and switch no swap on. They mostly wait
# for what they start, so they run beside the others; java has the suites that start many Java programs. Tests
# of the lane guests wait minutes for a virtual machine whose processor is emulated. Tests of the pressed lane
# run one binary at a time, because swap belongs to the whole machine.
#
# The lane check has the tests of modules, and suites of other lanes that need no pressure and take seconds
# (`make check`). The lane every-case has the suites that `make test` runs in part (plimsoll_testbed::cases).
set -euo pipefail
wanted=$1 binary=$2
shift 2
given=("$@")
name=${binary##*/}
suite=${PWD##*/}/${name%-*}

# Where a suite belongs; which of its tests are pressed although the suite is not, or quiet although it is
# pressed; and which are in a virtual machine: parts of their names.
lane=pressed
apart=()
guests=()
case $suite in
  cli/java) lane=java guests=(guest::) ;;
  cache/broker | runtimes/cache_servers) lane=quiet ;;
  runtimes/* | lab/record | map/hotspot) lane=java ;;
  client/* | sim/* | trace/*) lane=quiet ;;
  c/c | collector/order | heap/heap | heap/model | heap/plain | heap/several | map/plimsoll_map) lane=quiet ;;
  cli/broker | cli/lab | cli/map | cli/pin | cli/watch) lane=quiet ;;
  lab/sim | lab/sweep | lab/together | lab/trace) lane=quiet ;;
  libgc/differential | libgc/follow | libgc/programs) lane=quiet ;;
  libgc/model | libgc/strangers | libgc/turns | libgc/young) lane=quiet ;;
  broker/daemon)
    lane=quiet apart=(balance:: groups:: ladder:: pin:: unit:: users::) guests=(guest::)
    ;;
  jvm/real) lane=java apart=(churn:: pressure::) ;;
  libgc/agent) lane=quiet apart=(swap::) ;;
  libgc/bad_luck)
    lane=quiet apart=(swap_is_exhausted locks_its_memory a_large_object evicted_from_outside)
    ;;
  vm/machine) lane=quiet apart=(daemon::stalls pressure::) ;;
  cli/isla_vista) apart=(without_pressure lets_nobody_attach) ;;
  cli/first_process) lane=quiet guests=(guest::) ;;
  cli/bad_tree | cli/file | cli/own_cgroup | cli/systemd) guests=(guest::) ;;
  kernel/real | libgc/pressure | pin/real) guests=(guest::) ;;
esac

other=pressed
[ "$lane" != pressed ] || other=quiet

# Tests within documentation are compiled elsewhere, and are a step of their own.
[[ $binary == */deps/* ]] || exit 0

# run ARGUMENTS...: runs the binary. tools/test.sh looks for the line before.
run() {
  printf 'suite %s\n' "$suite"
  exec "$binary" "${given[@]}" "$@"
}

# only NAME...: runs the tests whose names contain one of these, if there are any.
only() {
  local name
  [ $# -gt 0 ] || exit 0
  for name in "$@"; do
    if [[ $("$binary" --list "$name") != *": test"* ]]; then
      echo "tools/lane.sh: $suite has no test $name" >&2
      exit 1
    fi
  done
  run "$@"
}

case $wanted in
  every-case)
    case $suite in
      cli/resize | cli/want | jvm/real | lab/record) run ;;
      runtimes/adopted | runtimes/command_lines | runtimes/hotspot) run ;;
    esac
    ;;
  check)
    case $suite in
      # Their long tests try many cases; `make test` runs them.
      map/plimsoll_map) run --skip=whatever_is_ ;;
      heap/heap) run --skip=luck:: --skip=swap:: --skip=tables:: ;;
      sim/paging | sim/threads) ;;
      */plimsoll | */plimsoll[-_]* | bench/tidy | c/c) run ;;
      client/* | decide/* | policy/* | sim/* | trace/* | unit/* | wire/*) run ;;
      cli/java) run --skip=guest:: ;;
      cli/broker | cli/lab | cli/map | cli/run | cli/watch | lab/sim | lab/together) run ;;
      libgc/checked | libgc/malformed | libgc/turns) run ;;
    esac
    ;;
  guests) only "${guests[@]}" ;;
  "$lane")
    apart+=("${guests[@]}")
    run "${apart[@]/#/--skip=}"
    ;;
  "$other") only "${apart[@]}" ;;
esac
