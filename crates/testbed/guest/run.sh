#!/bin/sh
# Boots a guest with cgroup version 2 into a program.
#   run.sh WORK SCRATCH ARGUMENTS PROGRAM FILE...
# WORK keeps the kernel between runs. PROGRAM and the FILEs are copied to the same paths in the guest, with
# their libraries. SCRATCH is a
# directory of the guest on ext4. ARGUMENTS are those of PROGRAM, separated by blanks. The guest is killed
# after GUEST_SECONDS. GUEST_LRU_GEN (y or n) switches its multi-generational LRU.
# Exit code 77: something is missing on this machine; standard output says what.
set -eu
work=$1 scratch=$2 arguments=$3 program=$4
shift 3
here=$(dirname "$0")

missing() {
    echo "the guest cannot run: $1"
    exit 77
}

for tool in qemu-system-x86_64 cpio mkfs.ext4 timeout; do
    PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
        missing "$tool is not installed (Debian: qemu-system-x86 cpio e2fsprogs)"
done
busybox=$(command -v busybox) || missing "busybox is not installed (Debian: busybox-static)"
PATH=$PATH:/usr/sbin:/sbin
[ "$(uname -m)" = x86_64 ] || missing "it is an x86-64 guest, and its programs are copied from here"

# The newest cloud kernel that the distribution offers: NVMe, ext4 and the serial ports are built in.
fetch_kernel() {
    (
        cd "$work"
        for name in linux-image-6.12-cloud-amd64 linux-image-cloud-amd64; do
            package=$(apt-cache depends "$name" 2>/dev/null |
                sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
            [ -n "$package" ] || continue
            apt-get download "$package" >/dev/null 2>&1 || continue
            dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --wildcards -O './boot/vmlinuz-*' >vmlinuz.part
            rm -f "$package"_*.deb
            [ -s vmlinuz.part ] || continue
            mv vmlinuz.part vmlinuz
            return 0
        done
        return 1
    )
}

# The kernel that tools/setup.sh fetched; else one that is fetched here.
fetched=$({ find "$here/../../../.cache/guest/boot" -name 'vmlinuz-*' 2>/dev/null || true; } |
    sort -V | tail -n 1)
kernel=${PLIMSOLL_GUEST_KERNEL:-${fetched:-$work/vmlinuz}}
[ -s "$kernel" ] || fetch_kernel ||
    missing "no kernel: apt offers no linux-image-cloud-amd64; set PLIMSOLL_GUEST_KERNEL"

root=$work/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys"
cp "$busybox" "$root/bin/busybox"
for applet in sh mount mkdir cat uname sync poweroff sleep env timeout; do
    ln -s busybox "$root/bin/$applet"
done
mkdir -p "$root/usr"
ln -s ../bin "$root/usr/bin"
# place FILE: copies a file to the same path in the guest.
place() {
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
}
for binary in "$busybox" "$@"; do
    [ "$binary" = "$busybox" ] || place "$binary"
    for library in $(ldd "$binary" 2>/dev/null | grep -o '/[^ ]*' | sort -u); do
        place "$library"
    done
done
# Debug information is of no use in the guest, and a smaller image boots faster.
for binary in "$@"; do strip "$root$binary" 2>/dev/null || true; done
cp "$here/init" "$root/init"
chmod 755 "$root/init"
printf "PROGRAM='%s'\nSCRATCH='%s'\nARGUMENTS='%s'\nLRU_GEN='%s'\n" \
    "$program" "$scratch" "$arguments" "${GUEST_LRU_GEN:-}" >"$root/guest.conf"
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$work/initrd"

# One processor: with several, each emulated by a thread, QEMU before 8.1 may translate a page while another
# thread writes to it. A guest that patches a static branch then runs into a breakpoint that is no longer
# there. If the processors take turns instead, they wait 100 ms for each other. Without cx16: QEMU 7.2
# miscompiles that instruction, and the guest dies in the kernel's allocator. With a periodic tick: without
# it, guests were seen to sleep for ever, as if the one timer that they had set were lost.
boot() {
    rm -f "$work/disk" "$work/out" "$work/console" "$work/life"
    truncate -s 1G "$work/disk"
    mkfs.ext4 -q -F "$work/disk"
    words="console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on"
    words="$words tsc=reliable psi=1 nohz=off highres=off"
    timeout "${GUEST_SECONDS:-900}" qemu-system-x86_64 \
        -machine q35 -accel tcg,thread=single -cpu max,-cx16 -m 900 \
        -nodefaults -display none -no-reboot -kernel "$kernel" -initrd "$work/initrd" \
        -append "$words" \
        -chardev file,id=con,path="$work/console" -serial chardev:con \
        -chardev file,id=out,path="$work/out" -serial chardev:out \
        -chardev file,id=life,path="$work/life" -serial chardev:life \
        -drive file="$work/disk",if=none,id=disk,format=raw,cache=unsafe -device nvme,drive=disk,serial=disk &
    qemu=$!
    trap 'kill $qemu' EXIT
    watch
    code=0
    wait $qemu || code=$?
    trap - EXIT
}

# Waits until QEMU ends, or until the guest has shown no sign of life for two minutes. Its init prints one
# every five seconds, whatever the program does.
watch() {
    seen=none still=0 dead=
    while kill -0 $qemu 2>/dev/null; do
        sleep 1
        size=$(stat -c %s "$work/life" 2>/dev/null || echo 0)
        if [ "$size" = "$seen" ]; then still=$((still + 1)); else seen=$size still=0; fi
        [ $still -lt 120 ] && continue
        dead="stood still"
        kill $qemu
        return
    done
    if grep -q 'Kernel panic' "$work/console"; then dead="died"; fi
}
boot
# A guest whose kernel died is most likely the emulator's fault, and says nothing about the program. So it is
# booted once more; a second death counts.
if [ -n "$dead" ]; then
    echo "the guest's kernel $dead and is booted once more; until then:"
    tail -n 3 "$work/out"
    grep -m 1 -B 3 -A 3 'RIP:' "$work/console" || true
    boot
fi
cat "$work/out"
rm -rf "$work/disk" "$root"
if ! grep -q '^guest: ended with 0' "$work/out"; then
    echo "QEMU ended with $code (124: the guest hung); the last words of its console:"
    tail -n 20 "$work/console"
    exit 1
fi
