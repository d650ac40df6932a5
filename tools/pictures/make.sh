#!/usr/bin/env bash
# Makes the pictures of `top` and of `map --html` in the README, of programs that really run, in a minute:
#   tools/pictures/make.sh [PLIMSOLL]      (target/release/plimsoll when absent)
# As any user. It needs a JDK, tmux and python3.
set -euo pipefail
cd "$(dirname "$0")"
own=$(realpath "${1:-../../target/release/plimsoll}")
into=$(realpath ../../docs/src)/pictures
work=$(mktemp -d)
export PLIMSOLL_SOCKET=$work/broker/broker.sock
tmux=(tmux -L "plimsoll-pictures-$$" -f /dev/null)
programs=
finish() {
  "${tmux[@]}" kill-server 2>/dev/null || true
  if [ -n "$programs" ]; then kill "$programs" && wait "$programs" || true; fi
  rm -rf "$work"
}
trap finish EXIT

javac -d "$work" Load.java
program() { # NAME WEIGHT LIVE CHURN START
  printf '[[program]]\nname = "%s"\nweight = %s\nstart = "%ss"\ncommand = "java -cp %s Load %s %s 600"\n' \
    "$1" "$2" "$5" "$work" "$3" "$4"
}
{
  printf 'name = "shop"\nbudget = "900M"\n'
  program cache 200 180 100 0
  program search 100 80 100 0
  program index 50 30 100 20
} >"$work/shop.toml"
mkdir "$work/broker" "$into" 2>/dev/null || true
chmod 700 "$work/broker"
"$own" run -f "$work/shop.toml" &
programs=$!
sleep 5
"${tmux[@]}" new-session -d -x 100 -y 11 "'$own' top"
sleep 50
"${tmux[@]}" capture-pane -e -p | python3 screen.py >"$into/top.svg"
pid=$("$own" ps --json | python3 -c '
import json, sys
def walk(all):
    for one in all:
        yield one
        yield from walk(one["children"])
print(next(p["pid"] for p in walk(json.load(sys.stdin)["principals"]) if p["name"] == "cache"))')
"$own" map --html "$work/map.html" "$pid"
python3 page.py 1 <"$work/map.html" >"$into/map.svg"
ls -l "$into"
