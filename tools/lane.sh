#!/usr/bin/env bash
# Cargo starts each test binary through this script (`CARGO_TARGET_…_RUNNER`), in the directory of its
# package. It runs the tests of the binary that belong to the lane that is asked for:
# lane.sh quiet|aside|pressed|every-case BINARY ARGUMENTS...
#
# Tests of the quiet lane put nothing under memory pressure and switch no swap on. They mostly wait for what
# they start, so they run beside the others. So do those of the lane aside: their pressure and swap are within
# a virtual machine, or their groups need no swap. Tests of the pressed lane run one binary at a time, because
# swap belongs to the whole machine.
#
# The lane every-case has the suites of which `make test` runs a part (plimsoll_testbed::cases).
set -euo pipefail
wanted=$1 binary=$2
shift
name=${binary##*/}
suite=${PWD##*/}/${name%-*}

# The lane of a suite, and parts of the names of those of its tests that belong to another lane.
lane=pressed
quiet=() aside=() pressed=()
case $suite in
  runtimes/* | client/* | sim/* | trace/*) lane=quiet ;;
  c/c | heap/heap | map/hotspot | map/plimsoll_map) lane=quiet ;;
  cli/broker | cli/java | cli/map | cli/pin | cli/record | cli/sweep) lane=quiet ;;
  libgc/differential | libgc/follow | libgc/programs) lane=quiet ;;
  libgc/strangers | libgc/turns | libgc/young) lane=quiet ;;
  broker/daemon)
    lane=quiet aside=(guest::) pressed=(balance:: groups:: ladder:: pin:: unit:: users::)
    ;;
  jvm/real) lane=quiet pressed=(churn:: pressure::) ;;
  libgc/agent) lane=quiet pressed=(swap::) ;;
  libgc/bad_luck)
    lane=quiet pressed=(swap_is_exhausted locks_its_memory a_large_object evicted_from_outside)
    ;;
  vm/machine) lane=quiet pressed=(daemon::stalls pressure::) ;;
  cli/isla_vista) quiet=(without_pressure lets_nobody_attach) ;;
  cli/file | kernel/real | libgc/pressure) aside=(guest::) ;;
  libgc/cliff) lane=aside ;;
  pin/real) lane=aside pressed=(limits::) ;;
esac

# Tests within documentation are compiled elsewhere, and are a step of their own.
[[ $binary == */deps/* ]] || exit 0
if [ "$wanted" = every-case ]; then
  case $suite in
    cli/record | cli/want | jvm/real) exec "$@" ;;
    runtimes/adopted | runtimes/command_lines | runtimes/hotspot) exec "$@" ;;
  esac
  exit 0
fi
for part in "${quiet[@]}" "${aside[@]}" "${pressed[@]}"; do
  if [[ $("$binary" --list "$part") != *": test"* ]]; then
    echo "tools/lane.sh: $suite has no test $part" >&2
    exit 1
  fi
done
others=()
for other in quiet aside pressed; do
  declare -n names=$other
  if [ "$wanted" = "$other" ]; then own=("${names[@]}"); else others+=("${names[@]/#/--skip=}"); fi
done
if [ "$wanted" = "$lane" ]; then exec "$@" "${others[@]}" "${own[@]/#/--skip=}"; fi
[ ${#own[@]} -gt 0 ] || exit 0
exec "$@" "${others[@]}" "${own[@]}"
