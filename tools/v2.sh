#!/usr/bin/env bash
# Runs the tests of what depends on the kernel under cgroup version 2, on each machine that there is
# (crates/testbed/src/guest.rs), with its multi-generational LRU off (n) and on (y), and prints a table
# (`make test-v2`):
#   tools/v2.sh [PART...]
# Without parts it runs all of them. MACHINES names those to run on, as in the heading of the table; JOBS says
# how many at once.
set -euo pipefail
cd "$(dirname "$0")/.."
tree=$PWD scratch=$PWD/target/tmp said=$PWD/target/v2
machines=(${MACHINES:-stock built/n built/y emulated/n emulated/y})

# The parts: name; suite, as in lane.sh; names of its tests; files that the emulated machine gets, or `-`
# where it cannot run it: it has no Java, no Python, and a tenth of the speed.
parts() {
  sed 's/ *| */|/g' << 'END'
interfaces            | kernel/real      |                               |
ladder                | broker/daemon    | ladder::                      | plimsolld
groups                | broker/daemon    | groups::a_                    | plimsolld
files or swap         | broker/daemon    | balance::                     | plimsolld
holding               | broker/daemon    | pin::                         | plimsolld
sharing of files      | broker/daemon    | mapped_files::                | plimsolld
one group a program   | cli/own_cgroup   |                               | plimsoll
a file of programs    | cli/file         | three_programs a_killed_broker a_unit what_outgrows | plimsoll
map                   | map/real         |                               | -
map --cgroup          | cli/map          | a_group_ a_watch_             | -
pin                   | pin/real         |                               | -
drop-in               | libgc/pressure   |                               | heapload libplimsoll_gc.so
agent                 | jvm/real         | a_way_of_loading stalls_are   | -
Java                  | cli/java         | a_machine_that_a_script_starts | -
END
}

mkdir -p "$said" "$scratch"
build=(cargo test --no-run)
for package in kernel broker cli map pin libgc agent-jvm; do build+=(-p "plimsoll-$package"); done
for suite in $(parts | cut -d '|' -f 2 | sed 's|.*/||' | sort -u); do build+=(--test "$suite"); done
"${build[@]}"
"${build[@]}" --quiet --message-format=json > "$said/built"

# binary SUITE: the path of its program.
binary() {
  grep "\"manifest_path\":\"[^\"]*/${1%/*}/Cargo.toml\"" "$said/built" |
    grep "\"kind\":\[\"test\"\],[^}]*\"name\":\"${1#*/}\"" |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# run PART SUITE NAMES FILES MACHINE: one cell of the table, left in a file.
run() {
  local part=$1 suite=$2 names=$3 files=$4 machine=$5 script=user-mode name
  local out="$said/${part// /-}.${machine/\//-}" lru=${machine#*/} beside=()
  [ "$lru" != "$machine" ] || lru=
  export GUEST_LRU_GEN=$lru GUEST_KERNEL=${machine%/*} GUEST_SECONDS=${GUEST_SECONDS:-1800}
  if [ "${machine%/*}" = emulated ]; then
    [ "$files" != - ] || { echo "not run" > "$out"; return 0; }
    script=run
    for name in $files; do
      beside+=("$(find target/debug/deps/"$name" target/debug/"$name" 2> /dev/null | head -n 1)")
      beside[-1]=$tree/${beside[-1]}
    done
  fi
  sh "crates/testbed/guest/$script.sh" "$scratch/v2-${out##*/}" "$scratch" \
    "--skip guest --nocapture --test-threads=1 $names" "$(binary "$suite")" "${beside[@]}" &> "$out" || true
  printf '%-22s %-12s %s\n' "$part" "$machine" "$(cell "$out")"
}

# cell FILE: what a run comes to.
cell() {
  awk '
    /^not run$/ || /(guest|Linux) cannot run: / { none = 1 }
    /skipped: / { skipped++ }
    match($0, /^test result: .* [0-9]+ passed; [0-9]+ failed/) { passed = $4; failed = $6; told = 1 }
    END {
      if (none) print "-"
      else if (!told) print "no answer"
      else if (failed) print failed " of " passed + failed " failed"
      else if (skipped) print passed ", " skipped " skipped"
      else print passed
    }
  ' "$1"
}

wanted() { [ $# -eq 1 ] || [[ " ${*:2} " == *" $1 "* ]]; }

while IFS='|' read -r part suite names files; do
  wanted "${part// /-}" "$@" || continue
  for machine in "${machines[@]}"; do
    while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-2}" ]; do wait -n || true; done
    run "$part" "$suite" "$names" "$files" "$machine" < /dev/null &
  done
done < <(parts)
wait

printf '\n| part | %s |\n|---|' "$(printf '%s | ' "${machines[@]}" | sed 's/ | $//')"
printf '%s' "${machines[@]/*/---|}"
echo
while IFS='|' read -r part _; do
  wanted "${part// /-}" "$@" || continue
  printf '| %s |' "$part"
  for machine in "${machines[@]}"; do printf ' %s |' "$(cell "$said/${part// /-}.${machine/\//-}")"; done
  echo
done < <(parts)
failed=0
for out in "$said"/*.*; do
  grep -H '^skipped: \|^test .* FAILED$' "$out" | sed "s|^$said/||" || true
  case $(cell "$out") in *failed | no*) failed=1 ;; esac
done
exit $failed
