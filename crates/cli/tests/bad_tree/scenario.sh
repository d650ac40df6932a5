#!/bin/sh
# Runs as root under user-mode Linux, where nothing but this divides the tree of cgroups (version 2):
#   scenario.sh PLIMSOLL [hybrid]
# Each check prints `ok NAME` or `not ok NAME`. A program always runs; where it has no cgroup of its own, the
# cause is said.
set -u
plimsoll=$1
tree=/sys/fs/cgroup
said=/tmp/said
failed=0
export PLIMSOLL_SOCKET=/run/test/broker.sock

# check NAME CONDITION...: runs a command, which says whether all is well.
check() {
    name=$1
    shift
    if "$@"; then
        echo "ok $name"
    else
        echo "not ok $name"
        sed 's/^/# /' "$said"
        failed=1
    fi
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

# within GROUP COMMAND...: runs it in a group of the tree. Its words go to $said.
within() {
    group=$tree/$1
    shift
    sh -c 'echo $$ >"$0/cgroup.procs" || exit 99; exec "$@"' "$group" "$@" >"$said" 2>&1
}

# The program of most checks.
show="cat /proc/self/cgroup"
show() { within "$1" "$plimsoll" run -v -- $show; }
shows() { grep -qx "0::$1" "$said"; }
says() { grep -q "has no cgroup of its own: .*$1" "$said"; }
is_silent() { ! grep -q 'no cgroup of its own' "$said"; }
knows() { "$plimsoll" ps >"$said" 2>&1 && grep -q "$1" "$said"; }
is_gone() { [ ! -e "$1" ]; }
ended() { [ ! -d "/proc/$1" ]; }
of() { pgrep -x -f "$1"; }
# The number of the broker at our socket; an ordinary user has one of his own.
broker() { "$plimsoll" ps --json | sed -n 's/^  "pid": \([0-9]*\),$/\1/p'; }

# keep NAME GROUP SECONDS: a program that runs in the background.
keep() {
    sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$tree/$2" "$plimsoll" run -v -n "$1" -- sleep "$3" \
        >"/tmp/$1" 2>&1 &
    wait_until knows "$1"
}

# Version 1 has the memory, and version 2 is mounted beside it (a hybrid). For good: the kernel does not move
# the controller back while anything is charged.
hybrid() {
    echo -memory >"$tree/cgroup.subtree_control"
    mkdir /tmp/memory
    if ! mount -t cgroup -o memory none /tmp/memory 2>"$said"; then
        echo "ok left out: this kernel has no memory controller of version 1 ($(head -n 1 "$said"))"
        exit 0
    fi
    mkdir /tmp/memory/here
    sh -c 'echo $$ >/tmp/memory/here/cgroup.procs; exec "$0" run -v -- cat /proc/self/cgroup' "$plimsoll" \
        >"$said" 2>&1
    check "a program is in its group of version 1" grep -q 'memory:/here' "$said"
    check "and nothing is said of version 2" is_silent
    exit $failed
}
[ "${2:-}" != hybrid ] || hybrid

mkdir "$tree/broker" "$tree/plain" "$tree/fixed"
keep keeper broker 6001
check "a program has a cgroup within one that was made for it alone" \
    wait_until grep -q 'has the cgroup .*/broker/plimsoll-run-' /tmp/keeper
show plain
check "so has another, elsewhere" shows '/plain/plimsoll-run-[0-9-]*'

echo "# a tree that is mounted read-only"
within fixed unshare --mount sh -c "mount -o remount,bind,ro $tree; exec $plimsoll run -v -- $show"
check "the program runs where it is" shows /fixed
check "and it is said that the mount is read-only" says 'read-only'

echo "# threads apart"
mkdir -p "$tree/apart/inner"
echo threaded >"$tree/apart/inner/cgroup.type"
show apart
check "a program in a domain with threads apart has a cgroup beside it" shows '/plimsoll-run-[0-9-]*'
within apart sh -c "echo \$\$ >$tree/apart/inner/cgroup.procs; exec $plimsoll run -v -- $show"
check "in a group of threads a program runs where it is" shows /apart/inner
check "and that is said" says 'cgroup.type .*domain'

echo "# processes within"
mkdir -p "$tree/full/below"
sleep 6002 &
echo $! >"$tree/full/cgroup.procs"
show full
check "a group with a stranger is left as it is, and one is made beside it" shows '/plimsoll-run-[0-9-]*'
show full/below
check "below a group with processes there is no controller: the program runs where it is" shows /full/below
check "and that is said" says 'cgroup.controllers .*hand down'
check "and nothing was made there" [ -z "$(find "$tree/full/below" -mindepth 1 -type d)" ]
mkdir "$tree/users"
sleep 6003 &
echo $! >"$tree/users/cgroup.procs"
chown -R 65534 "$tree/users"
within users setpriv --reuid 65534 --regid 65534 --clear-groups env PLIMSOLL_SOCKET=/tmp/users/broker.sock \
    "$plimsoll" run -v -- cat /proc/self/cgroup
check "an ordinary user's program runs beside a stranger" shows /users
check "and the user is told what to do" says 'move its processes to a child first'

echo "# the cgroup of a program goes"
mkdir "$tree/killed"
keep killed killed 6004
wait_until grep -q 'has the cgroup' /tmp/killed
leaf=$(sed -n 's/.*has the cgroup //p' /tmp/killed)
pid=$(of 'plimsoll run .* -n killed .*' || of "$plimsoll run -v -n killed -- sleep 6004")
echo 1 >"$leaf/cgroup.kill"
rmdir "$leaf" 2>/dev/null
check "a program that is killed by its cgroup ends its plimsoll run" wait_until ended "$pid"
check "the broker serves the others" knows keeper
check "nothing is left of it" wait_until is_gone "$leaf"
show killed
check "and the next program has a cgroup again" shows '/killed/plimsoll-run-[0-9-]*'

echo "# another broker while a program runs"
leaf=$(sed -n 's/.*has the cgroup //p' /tmp/keeper)
old=$(broker)
echo 67108864 >"$leaf/memory.high"
kill -KILL "$old"
wait_until ended "$old"
show plain
check "the program joins the new one" wait_until knows keeper
check "with its cgroup" wait_until grep -q "$leaf" /run/test/state.json
check "and the bound of the old one is lifted" wait_until grep -qx max "$leaf/memory.high"
check "it is another one" [ "$(broker)" != "$old" ]
exit $failed
