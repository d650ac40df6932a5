#!/bin/sh
# Boots Linux as a process (user-mode Linux) with cgroup version 2, on the files of this machine, and runs a
# program in it. Real Java, Guile and Node programs run there without an image. Needs root.
#   user-mode.sh WORK SCRATCH ARGUMENTS PROGRAM
# ARGUMENTS are those of PROGRAM, separated by blanks. SCRATCH is a directory on ext4 there, which may hold
# swap. The rest of the file system is this machine's, and writable, but for /tmp, /run, /var/tmp and
# /dev/shm. It is killed after GUEST_SECONDS. GUEST_LRU_GEN (y or n) switches its multi-generational LRU,
# where it has one. GUEST_KERNEL is `built` (by kernel.sh) or `stock` (Debian's); without it, the first that
# is there.
# Exit code 77: something is missing on this machine; standard output says what.
set -eu
work=$1 scratch=$2 arguments=$3 program=$4
here=$(cd "$(dirname "$0")" && pwd)
tree=$(cd "$here/../../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin

missing() {
    echo "user-mode Linux cannot run: $1"
    exit 77
}

[ "$(id -u)" = 0 ] || missing "the files that its programs read are root's; run the tests as root"
# The kernel that tools/setup.sh built, the one that it fetched, or one that is installed.
built=$tree/.cache/user-mode/linux stock=$tree/.cache/user-mode/usr/bin/linux.uml
[ -x "$stock" ] || stock=$(command -v linux.uml) || stock=
kernel=$stock
[ "${GUEST_KERNEL:-built}" = stock ] || [ ! -x "$built" ] || kernel=$built
[ "${GUEST_KERNEL:-}" != built ] || [ -x "$built" ] || missing "no kernel is built (tools/setup.sh v2)"
[ -n "$kernel" ] || missing "the package user-mode-linux is not there (tools/setup.sh test)"
for tool in mkfs.ext4 timeout; do
    command -v "$tool" >/dev/null || missing "$tool is not installed (Debian: e2fsprogs, coreutils)"
done

mkdir -p "$work" "$scratch"
rm -f "$work/disk" "$work/out" "$work/console"
truncate -s 2G "$work/disk"
mkfs.ext4 -q -F "$work/disk"
# Debug information is of no use there.
strip -o "$work/program" "$program" 2>/dev/null || cp "$program" "$work/program"
{
    printf "PROGRAM='%s'\nSCRATCH='%s'\nARGUMENTS='%s'\n" "$program" "$scratch" "$arguments"
    printf "COPY='%s'\nTREE='%s'\nOUT='%s'\n" "$work/program" "$tree" "$work/out"
    printf "LRU_GEN='%s'\n" "${GUEST_LRU_GEN:-}"
} >"$work/conf"
# Its memory is a file below TMPDIR, on tmpfs where there is one.
shm=/dev/shm
[ -d "$shm" ] || shm=$work
. "$here/preload.sh"
code=0
TMPDIR=$shm LD_PRELOAD=$preload timeout -k 10 "${GUEST_SECONDS:-900}" "$kernel" \
    rootfstype=hostfs rootflags=/ rw mem="${GUEST_MEMORY:-1500M}" "init=$here/user-mode-init" \
    "ubd0=$work/disk" con=null con0=null,fd:1 ssl=null quiet panic=-1 "GUEST_CONF=$work/conf" \
    </dev/null >"$work/console" 2>&1 || code=$?
rm -f "$work/disk" "$work/program"
cat "$work/out" 2>/dev/null || true
if ! grep -q '^guest: ended with 0' "$work/out" 2>/dev/null; then
    echo "user-mode Linux ended with $code (124: it hung); the last words of its console:"
    tail -n 20 "$work/console"
    exit 1
fi
