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
case ${binary%/*}:${PWD##*/}/${name%-*} in
  */deps:runtimes/* | */deps:client/* | */deps:sim/* | */deps:trace/*) lane=quiet ;;
  */deps:cli/record | */deps:cli/sweep | */deps:map/hotspot) lane=quiet ;;
  */deps:libgc/differential | */deps:libgc/strangers | */deps:libgc/turns | */deps:libgc/young) lane=quiet ;;
  # Also tests within documentation, which are compiled elsewhere.
  *) lane=pressed ;;
esac
if [ "$lane" = "$wanted" ]; then exec "$@"; fi
