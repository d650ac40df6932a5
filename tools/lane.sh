#!/usr/bin/env bash
# Cargo starts each test binary through this script (`CARGO_TARGET_…_RUNNER`), in the directory of its
# package. It runs the binary if it belongs to the lane that is asked for, and else does nothing:
# lane.sh quiet|pressed BINARY ARGUMENTS...
#
# Tests of the quiet lane put nothing under memory pressure and switch no swap on. They mostly wait for the
# Java virtual machines and brokers that they start, so they run beside the others.
set -euo pipefail
wanted=$1 binary=$2
shift
name=${binary##*/}
lane=pressed
# Tests within documentation are compiled elsewhere.
if [[ $binary == */deps/* ]]; then
  case ${PWD##*/}/${name%-*} in
    runtimes/* | client/* | sim/* | trace/*) lane=quiet ;;
    cli/record | cli/sweep | map/hotspot) lane=quiet ;;
    libgc/differential | libgc/strangers | libgc/turns | libgc/young) lane=quiet ;;
  esac
fi
if [ "$lane" = "$wanted" ]; then exec "$@"; fi
