# Runs as root on a Debian with systemd and cgroup version 2 (crates/cli/tests/systemd.rs). Each check prints
# `ok NAME` or `not ok NAME`; the test looks for the latter.
set -u
install -m 755 /files/plimsoll /usr/local/bin/plimsoll
failed=0

# check NAME CONDITION...: runs a command, which says whether all is well.
check() {
    name=$1
    shift
    if "$@"; then echo "ok $name"; else echo "not ok $name"; failed=1; fi
}

# wait_until COMMAND...: waits for at most 30 s.
wait_until() {
    n=0
    until "$@"; do
        n=$((n + 1))
        [ "$n" -lt 300 ] || return 1
        sleep 0.1
    done
}

# somebody COMMAND: as an ordinary user in a session of its own, as after a login.
somebody() { su - somebody -c "export XDG_RUNTIME_DIR=/run/user/1000; $1"; }

scopes() { find /sys/fs/cgroup -type d -name 'plimsoll-*.scope'; }
no_scope() { [ -z "$(scopes)" ]; }
one_scope() { [ "$(scopes | wc -l)" = 1 ]; }
is_in() { case $1 in $2) ;; *) echo "# $1"; return 1 ;; esac; }
ended() { ! pgrep -x "$1" >/dev/null; }
is_running() { ! ended "$1"; }

systemctl --version | head -n 1
loginctl enable-linger somebody
wait_until test -S /run/user/1000/bus

echo "# an ordinary user"
own='*/user@1000.service/*/plimsoll-*.scope/plimsoll-run-*'
first=$(somebody 'plimsoll run -- cat /proc/self/cgroup')
check "the first instruction is in a cgroup of its own" is_in "$first" "$own"
check "the scope ends with the program" wait_until no_scope
check "the status is the program's" [ "$(somebody 'plimsoll run -- sh -c "exit 7"'; echo $?)" = 7 ]

somebody 'setsid plimsoll run -v -n held -- sleep 611 >/tmp/held.log 2>&1 & sleep 3; plimsoll ps >/tmp/ps.log'
check "a program runs in one scope" wait_until one_scope
leaf=$(sed 's|^0::|/sys/fs/cgroup|' "/proc/$(pgrep -x sleep | head -n 1)/cgroup")
check "its cgroup is the user's" [ "$(stat -c %U "$leaf")" = somebody ]
check "its cgroup can be bounded" [ -w "$leaf/memory.high" ]
check "the broker has its cgroup" grep -q 'has the cgroup' /tmp/held.log
check "plimsoll run stays in the session" \
    is_in "$(cat "/proc/$(pgrep -o -x plimsoll)/cgroup")" '*session-*.scope'
check "doctor says so" is_in "$(somebody 'plimsoll doctor')" '*a scope of systemd*'

echo "# everything of ours is killed"
pkill -KILL -x plimsoll
check "the program goes on" is_running sleep
check "its scope is still there" one_scope
check "nothing bounds it, or the next broker lifts it" \
    is_in "$(somebody 'plimsoll run -- cat '"$leaf"'/memory.high')" max
pkill -KILL -x plimsoll
# As if a broker had been killed that bounded it, and its directory were lost.
echo 64M >"$leaf/memory.high" && rm -rf /run/user/1000/plimsoll
check "the next one lifts a bound of which no broker knows" \
    is_in "$(somebody 'plimsoll run -- cat '"$leaf"'/memory.high')" max
pkill -x sleep
check "the scope ends with it" wait_until no_scope

echo "# two programs of a file under a budget"
cat >/tmp/two.toml <<'T'
budget = "100M"
[[program]]
name = "a"
command = "sleep 612"
[[program]]
name = "b"
command = "sleep 613"
T
somebody 'setsid plimsoll run -v -f /tmp/two.toml >/tmp/two.log 2>&1 & sleep 3'
check "both are in one scope" wait_until one_scope
budget=$(find /sys/fs/cgroup -type d -name "plimsoll-run-*" | grep 'scope/plimsoll-run-[0-9-]*$')
check "the budget binds" [ "$(cat "$budget/memory.max")" -le 131072000 ]
holds_both() { [ "$(cat "$budget"/[0-9]-a/cgroup.procs "$budget"/[0-9]-b/cgroup.procs | wc -l)" = 2 ]; }
check "each has a cgroup" wait_until holds_both
check "nothing is advisory" [ -z "$(grep advisory /tmp/two.log)" ]
pkill -TERM -x plimsoll
check "the scope of both ends" wait_until no_scope

echo "# one within another"
cat >/tmp/within <<'T'
own=/sys/fs/cgroup$(sed 's/^0:://' /proc/self/cgroup)
echo 512M >"$own/memory.high" && plimsoll run -v -- cat /proc/self/cgroup
cat /proc/self/cgroup
T
within=$(somebody 'plimsoll run -- sh /tmp/within 2>/tmp/within.log')
check "it has a scope of its own, though the outer is bounded" is_in "$(echo "$within" | head -n 1)" "$own"
check "and not that of the outer one" \
    [ "$(echo "$within" | sed 's|/plimsoll-run.*||' | sort -u | wc -l)" = 2 ]

echo "# services"
systemd-run -q --wait --pipe plimsoll run -v -- cat /proc/self/cgroup >/tmp/plain.log 2>&1
check "a service without Delegate= keeps its programs" \
    is_in "$(cat /tmp/plain.log)" '*0::/system.slice/run-*.service*'
check "and it is said" grep -q 'Delegate=yes' /tmp/plain.log
systemd-run -q --wait --pipe -p Delegate=yes plimsoll run -v -- cat /proc/self/cgroup >/tmp/delegated.log 2>&1
check "one with Delegate= has a cgroup within it" is_in "$(cat /tmp/delegated.log)" '*.service/plimsoll-run-*'
systemd-run -q --uid=somebody --wait --pipe -p Delegate=yes plimsoll run -v -- cat /proc/self/cgroup \
    >/tmp/users.log 2>&1
check "so has one of an ordinary user" is_in "$(cat /tmp/users.log)" '*.service/plimsoll-run-*'

echo "# limits that must go on to bind"
somebody 'systemd-run -q --user --scope -p MemoryMax=200M plimsoll run -v -- cat /proc/self/cgroup' \
    >/tmp/limited.log 2>&1
check "no program escapes a limit" is_in "$(cat /tmp/limited.log)" '*0::*run-*.scope*'
check "and that is said" grep -q 'would not bind the program any more' /tmp/limited.log
somebody 'systemd-run -q --user --scope -p TasksMax=60 plimsoll run -v -- cat /proc/self/cgroup' \
    >/tmp/tasks.log 2>&1
check "nor one on the number of tasks" is_in "$(cat /tmp/tasks.log)" \
    '*pids.max would not bind*0::*run-*.scope*'
slice=$(somebody 'systemd-run -q --user --scope --slice=app-x.slice plimsoll run -- cat /proc/self/cgroup')
check "a scope is in the slice of who asks" is_in "$slice" '*/app-x.slice/plimsoll-*.scope/plimsoll-run-*'
check "no scope is left" wait_until no_scope

echo "# root"
check "root's programs have a scope of the machine's systemd" \
    is_in "$(su - root -c 'plimsoll run -- cat /proc/self/cgroup')" \
    '*/user-0.slice/plimsoll-*.scope/plimsoll-run-*'

echo "# bad luck"
without() { somebody "DBUS_SESSION_BUS_ADDRESS=$1 plimsoll run -v -- cat /proc/self/cgroup" 2>&1; }
nobus=$(without unix:path=/nowhere)
check "without a bus the program runs where it is" is_in "$nobus" '*0::*session-*.scope*'
check "and that says why" is_in "$nobus" '*has no cgroup of its own: systemd*'
mkdir -p /tmp/bin && printf '#!/bin/sh\nsleep 600\n' >/tmp/bin/busctl && chmod 755 /tmp/bin/busctl
stalled=$(somebody 'PATH=/tmp/bin:$PATH plimsoll run -v -- cat /proc/self/cgroup' 2>&1)
check "a bus that never answers is given up" is_in "$stalled" '*did not answer within 4 s*0::*'
check "and it is said for what the program waits" is_in "$stalled" '*has not answered for 2 s*'
pkill -f 'sleep 600'
printf '#!/bin/sh\necho "Access denied" >&2; exit 1\n' >/tmp/bin/busctl
denied=$(somebody 'PATH=/tmp/bin:$PATH plimsoll run -v -- cat /proc/self/cgroup' 2>&1)
check "a refusal is told" is_in "$denied" '*systemd refuses a scope: Access denied*'
check "nothing of ours is left" wait_until ended plimsoll
exit $failed
