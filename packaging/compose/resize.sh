#!/bin/sh
# Lowers or raises the limit of memory of a container while its programs work:
#   resize.sh CONTAINER SIZE       by `docker update` (ENGINE=podman for another engine)
#   resize.sh DIRECTORY SIZE       of a cgroup, by writing to it
# SIZE is in bytes, or has K, M or G behind it. A lower limit is approached in steps, each of which leaves an
# eighth of what is in use: a limit below what is in use is refused under cgroup v1, and kills at once under
# v2. Programs see each step as their limit and give back. Where that brings nothing for two seconds, a
# program may have that eighth as its own, and later steps leave a 32nd. It ends with 1 after PATIENCE seconds
# (120): then what lives does not fit, and the limit stays at the last step.
set -eu
engine=${ENGINE:-docker}
[ $# = 2 ] || { echo "usage: resize.sh CONTAINER|DIRECTORY SIZE" >&2; exit 2; }
what=$1
case $2 in
    *[!0-9KMG]* | '' | [KMG]*) echo "resize.sh: SIZE is a number, with K, M or G: not '$2'" >&2; exit 2 ;;
    *K) target=$((${2%K} << 10)) ;;
    *M) target=$((${2%M} << 20)) ;;
    *G) target=$((${2%G} << 30)) ;;
    *) target=$2 ;;
esac
# The kernel counts in pages.
target=$((target / 4096 * 4096))

# Where the cgroup of a container is, by its first process. That may be in one below it, of its own.
directory_of() {
    id=$("$engine" inspect --format '{{.Id}}' "$1") pid=$("$engine" inspect --format '{{.State.Pid}}' "$1")
    of() { sed -n "s|^[0-9]*:$1:||p" "/proc/$pid/cgroup" | sed "s|\($id[^/]*\).*|\1|"; }
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo "/sys/fs/cgroup$(of '')"
    else
        echo "/sys/fs/cgroup/memory$(of memory)"
    fi
}

if [ -d "$what" ]; then directory=$what; else directory=$(directory_of "$what"); fi
if [ -e "$directory/memory.max" ]; then
    limit=memory.max usage=memory.current files=inactive_file
elif [ -e "$directory/memory.limit_in_bytes" ]; then
    limit=memory.limit_in_bytes usage=memory.usage_in_bytes files=total_inactive_file
else
    echo "resize.sh: $directory has no limit of memory" >&2
    exit 1
fi

# The memory that is in use and cannot be dropped.
used() {
    dropped=$(sed -n "s/^$files //p" "$directory/memory.stat")
    echo $(($(cat "$directory/$usage") - dropped))
}

# set_to BYTES: fails if the kernel refuses.
set_to() {
    if [ -d "$what" ]; then
        { echo "$1" >"$directory/$limit"; } 2>/dev/null
    else
        "$engine" update --memory "$1" --memory-swap "$1" "$what" >/dev/null 2>&1
    fi
}

part=8 still=0
end=$(($(date +%s) + ${PATIENCE:-120}))
while :; do
    now=$(cat "$directory/$limit")
    [ "$now" != "$target" ] || exit 0
    in_use=$(used)
    next=$target
    if [ "$now" = max ] || [ "$target" -lt "$now" ]; then
        safe=$((in_use + in_use / part))
        [ "$safe" -le "$target" ] || next=$safe
    fi
    if [ "$now" = max ] || [ "$next" -lt "$now" ] || [ "$next" = "$target" ]; then
        set_to "$next" || true
        still=0
    fi
    still=$((still + 1))
    [ "$still" -lt 10 ] || part=32
    if [ "$(date +%s)" -ge "$end" ]; then
        echo "resize.sh: $in_use bytes stay in use, so the limit is $(cat "$directory/$limit")" >&2
        exit 1
    fi
    sleep 0.2
done
