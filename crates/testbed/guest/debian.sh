#!/bin/sh
# Boots Debian 12 with systemd and cgroup version 2 under user-mode Linux, and runs a script in it, as root.
#   debian.sh WORK SCRATCH ARGUMENTS SCRIPT FILE...
# SCRIPT and the FILEs are in the directory /files there. SCRATCH and ARGUMENTS are of no use here. It is
# killed after GUEST_SECONDS. Exit code 77: something is missing on this machine; standard output says what.
set -eu
work=$1 script=$4
shift 4
here=$(cd "$(dirname "$0")" && pwd)
cache=$(cd "$here/../../.." && pwd)/.cache
PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "the guest with systemd cannot run: $1"
    exit 77
}

[ "$(id -u)" = 0 ] || missing "the files that it reads are root's; run the tests as root"
kernel=$cache/user-mode/usr/bin/linux.uml
[ -x "$kernel" ] || kernel=$(command -v linux.uml) ||
    missing "the package user-mode-linux is not there (tools/setup.sh test)"
disk=$cache/debian/disk.ext4
[ -s "$disk" ] || missing "no disk with Debian (tools/setup.sh test)"

rm -rf "$work/files" "$work/changes"
mkdir -p "$work/files"
cp "$script" "$work/files/script"
for file in "$@"; do
    cp -L "$file" "$work/files/"
    # Debug information is of no use there.
    strip "$work/files/$(basename "$file")" 2>/dev/null || true
done
# All users may read them there.
chmod -R a+rX "$work/files"
shm=/dev/shm
[ -d "$shm" ] || shm=$work
. "$here/preload.sh"
code=0
TMPDIR=$shm LD_PRELOAD=$preload timeout -k 10 "${GUEST_SECONDS:-300}" "$kernel" \
    "ubd0=$work/changes,$disk" root=/dev/ubda rw mem="${GUEST_MEMORY:-700M}" \
    con=null con0=null,fd:1 ssl=null panic=-1 "guest=$work/files" systemd.unified_cgroup_hierarchy=1 \
    </dev/null >"$work/console" 2>&1 || code=$?
rm -f "$work/changes"
cat "$work/files/out" 2>/dev/null || true
if ! grep -q '^guest: ended with 0' "$work/files/out" 2>/dev/null; then
    echo "user-mode Linux ended with $code (124: it hung); the last words of its console:"
    tail -n 20 "$work/console"
    exit 1
fi
