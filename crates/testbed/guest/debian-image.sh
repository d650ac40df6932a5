#!/bin/sh
# Makes a disk with Debian 12, systemd and an ordinary user, for debian.sh:
#   debian-image.sh DIRECTORY
# DIRECTORY/disk.ext4 is the disk. Needs root, debootstrap and mkfs.ext4.
set -eu
directory=$1
here=$(cd "$(dirname "$0")" && pwd)
PATH=$PATH:/usr/sbin:/sbin
root=$directory/root
rm -rf "$root" "$directory/disk.ext4.part"
mkdir -p "$root"
with=systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd,procps,util-linux,libgcc-s1
debootstrap --variant=minbase --include="$with" bookworm "$root" >"$directory/log" 2>&1 || {
    tail -n 5 "$directory/log"
    exit 1
}
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
cp "$here/debian-guest.service" "$root/etc/systemd/system/guest.service"
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/files"
ln -s ../guest.service "$root/etc/systemd/system/multi-user.target.wants/guest.service"
# Nobody logs in at its consoles, and it has no network.
for unit in getty@tty1.service console-getty.service getty.target systemd-networkd.service \
    systemd-timesyncd.service systemd-update-utmp.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
printf '/dev/ubda / ext4 defaults 0 1\n' >"$root/etc/fstab"
echo guest >"$root/etc/hostname"
chroot "$root" useradd --create-home --shell /bin/sh --uid 1000 somebody
truncate -s 1200M "$directory/disk.ext4.part"
mkfs.ext4 -q -F -d "$root" "$directory/disk.ext4.part"
mv "$directory/disk.ext4.part" "$directory/disk.ext4"
rm -rf "$root"
