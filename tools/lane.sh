#!/usr/bin/env bash
# Cargo starts each test binary through this script (`CARGO_TARGET_…_RUNNER`), in the directory of its
# package. It runs the tests of the binary that belong to the lane that is asked for:
# lane.sh quiet|pressed|every-case BINARY ARGUMENTS...
#
# Tests of the quiet lane put nothing under memory pressure and switch no swap on, or do so in a virtual
# machine. They mostly wait for what they start, so they run beside the others. Tests of the pressed lane run
# one binary at a time, because swap belongs to the whole machine.
#
# The lane every-case has the suites that `make test` runs in part (plimsoll_testbed::cases).
set -euo pipefail
wanted=$1 binary=$2
shift
name=${binary##*/}
suite=${PWD##*/}/${name%-*}

# Where a suite belongs, and which of its tests belong to the other lane: parts of their names.
lane=pressed
apart=()
case $suite in
  runtimes/* | client/* | sim/* | trace/*) lane=quiet ;;
  c/c | heap/heap | heap/several | map/hotspot | map/plimsoll_map) lane=quiet ;;
  cli/broker | cli/java | cli/map | cli/pin | cli/record | cli/sweep) lane=quiet ;;
  libgc/differential | libgc/follow | libgc/programs) lane=quiet ;;
  libgc/strangers | libgc/turns | libgc/young) lane=quiet ;;
  broker/daemon) lane=quiet apart=(balance:: groups:: ladder:: pin:: unit:: users::) ;;
  jvm/real) lane=quiet apart=(churn:: pressure::) ;;
  libgc/agent) lane=quiet apart=(swap::) ;;
  libgc/bad_luck)
    lane=quiet apart=(swap_is_exhausted locks_its_memory a_large_object evicted_from_outside)
    ;;
  vm/machine) lane=quiet apart=(daemon::stalls pressure::) ;;
  cli/isla_vista) apart=(without_pressure lets_nobody_attach) ;;
  cli/file | kernel/real | libgc/pressure) apart=(guest::) ;;
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
if [ ${#apart[@]} = 0 ]; then
  [ "$wanted" = "$lane" ] || exit 0
  exec "$@"
fi
for part in "${apart[@]}"; do
  if [[ $("$binary" --list "$part") != *": test"* ]]; then
    echo "tools/lane.sh: $suite has no test $part" >&2
    exit 1
  fi
done
if [ "$wanted" = "$lane" ]; then exec "$@" "${apart[@]/#/--skip=}"; fi
exec "$@" "${apart[@]}"
