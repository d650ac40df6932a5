#!/usr/bin/env bash
# Tries for real, as root, what packaging/dist.sh made: packaging/test.sh [DEBIAN...] (bookworm and trixie
# when absent). In clean roots of Debian 12 and 13: installs the packages of Debian, without a compiler, runs
# Java under them, replaces them by a newer version while a program runs, removes and purges them, and
# compares what is left. Then the packages of RPM in an empty root, by Debian's rpm and without dependencies,
# and the container's image.
# The roots stay below .cache/roots, without what was tried in them.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
dist=$(realpath "${OUT:-dist}")
roots=$PWD/.cache/roots
mirror=${MIRROR:-http://deb.debian.org/debian}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
faults=0

say() { printf '\n== %s\n' "$*"; }
fault() { printf 'FAILED: %s\n' "$*" >&2; faults=$((faults + 1)); }
# check WHAT COMMAND...: the command must succeed.
check() {
  local what=$1
  shift
  if "$@" >"$work/said" 2>&1; then printf 'ok      %s\n' "$what"; else cat "$work/said"; fault "$what"; fi
}

[ "$(id -u)" = 0 ] || { echo 'skipped: the packages are tried in roots of their own, as root'; exit 0; }

# within ROOT COMMAND...: runs a command with ROOT as its root, in namespaces of its own: processes that it
# leaves end with it.
within() {
  local root=$1
  shift
  unshare --mount --pid --ipc --uts --fork --kill-child sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/run" &&
      exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C \
        DEBIAN_FRONTEND=noninteractive "$@"' sh "$root" "$@"
}

# apt ROOT ARGUMENTS...
apt() {
  local root=$1
  shift
  within "$root" apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

# clean NAME: a root of this Debian, and what programs need that are run in it: Java, and units' verification.
clean() {
  [ -e "$roots/$1/complete" ] && return 0
  say "making a root of Debian $1"
  rm -rf "${roots:?}/$1"
  mkdir -p "$roots/$1"
  debootstrap --variant=minbase --include=ca-certificates "$1" "$roots/$1/whole" "$mirror" >/dev/null
  cp /etc/resolv.conf "$roots/$1/whole/etc/resolv.conf"
  cp -a "$roots/$1/whole" "$roots/$1/minimal"
  apt "$roots/$1/whole" install default-jre-headless systemd procps python3 >/dev/null
  touch "$roots/$1/complete"
}

# listed ROOT: the files there, but for what the package manager notes and caches.
listed() {
  (cd "$1" && find . -xdev -print | sort |
    grep -vE '^\./(proc|dev|run|tmp|packages|var/cache|var/log|var/lib/apt|var/lib/dpkg)(/|$)')
}

# Without a service manager: what is needed is installed, and a program runs.
minimal() {
  local root=$work/minimal
  cp -a "$roots/$1/minimal" "$root"
  mkdir "$root/packages"
  cp "$dist"/*.deb "$root/packages"
  check "$1, minimal: installed" apt "$root" install "/packages/$(cd "$dist" && ls plimsoll_*.deb)"
  check "$1, minimal: the user is there" grep -q '^plimsoll:' "$root/etc/passwd"
  check "$1, minimal: no compiler came with it" test ! -e "$root/usr/bin/cc"
  check "$1, minimal: a program runs" within "$root" plimsoll run -- true
  within "$root" plimsoll sim x >"$work/told" 2>&1 || true
  check "$1, minimal: plimsoll says where sim is" grep -q 'install the package plimsoll-lab' "$work/told"
  rm -rf "$root"
}

# The life of the packages on a machine with systemd's files, which does not run.
whole() {
  local root=$work/root after
  cp -a "$roots/$1/whole" "$root"
  listed "$root" >"$work/before"
  mkdir "$root/packages"
  cp "$dist"/*.deb "$root/packages"
  check "$1: installed" apt "$root" install $(cd "$dist" && printf '/packages/%s ' *.deb)
  check "$1: Java runs" within "$root" plimsoll run -- java -version
  check "$1: Java has the agent" within "$root" sh -c \
    'plimsoll run -v -- java -version 2>&1 | grep -q /usr/lib/plimsoll/libplimsoll_jvm.so'
  check "$1: doctor" within "$root" plimsoll doctor
  check "$1: the drop-in is found" within "$root" sh -c \
    'plimsoll doctor --json | grep -q /usr/lib/plimsoll/gc/libgc.so.1'
  check "$1: the lab runs" within "$root" sh -c \
    'cd /tmp && plimsoll trace synth lusearch --scale 1000 -o t && plimsoll sim --heap 64M t && rm t'
  check "$1: the service is enabled" test -L \
    "$root/etc/systemd/system/multi-user.target.wants/plimsolld.service"
  for unit in service socket; do
    check "$1: plimsolld.$unit is sound" within "$root" systemd-analyze --man=no verify \
      "/usr/lib/systemd/system/plimsolld.$unit"
  done
  check "$1: the configuration is sound" within "$root" plimsolld --check --config /etc/plimsoll/plimsoll.toml
  upgraded "$1" "$root"
  foreign "$1" "$root"
  echo '# changed' >>"$root/etc/plimsoll/plimsoll.toml"
  check "$1: removed" apt "$root" remove plimsoll plimsoll-lab plimsoll-libgc libplimsoll0 libplimsoll-dev
  check "$1: removing keeps the configuration" grep -q '^# changed' "$root/etc/plimsoll/plimsoll.toml"
  # As policy has it, what was enabled is remembered until the package is purged.
  after=$(new "$root" | grep -vE 'etc/plimsoll|etc/systemd/system|deb-systemd-helper') || true
  check "$1: removing leaves nothing else: $after" test -z "$after"
  # The other packages have nothing that removing keeps.
  check "$1: purged" apt "$root" purge plimsoll
  after=$(new "$root")
  check "$1: purging leaves nothing: $after" test -z "$after"
  rm -rf "$root"
}

# A program that uses systemd's library alone is told of what it owes before the kernel takes anything.
# Debian 12's systemd is older than that protocol.
foreign() {
  [ "$1" != bookworm ] || return 0
  cp packaging/foreign.py "$2/packages"
  cat >"$2/packages/foreign" <<'END'
set -e
soon() {
  for _ in $(seq 300); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  echo "in vain: $*"
  return 1
}
plimsolld --directory /run/foreign --budget 400M &
export PLIMSOLL_SOCKET=/run/foreign/broker.sock
soon test -S $PLIMSOLL_SOCKET
plimsoll run --name foreign -- python3 /packages/foreign.py >/run/said &
foreign=$!
soon grep -q ready /run/said
plimsoll set foreign --max 100M
wait $foreign
cat /run/said
# All of it was still there when it was told, and nothing was in swap.
awk '$1 == "signalled" { told = $2 > 150000 && $3 == 0 } $1 == "dropped" { left = $2 }
  END { exit !(told && left < 60000) }' /run/said
END
  check "$1: a program of systemd's library gives back before the kernel takes" \
    within "$2" sh /packages/foreign
}

# new ROOT: files that were not there before, without copies of the table of users.
new() {
  local known='^\./etc/((passwd|group|shadow|gshadow)-|\.pwd\.lock)'
  listed "$1" | comm -13 "$work/before" - | grep -vE "$known" || true
}

# While a program runs under the broker, the packages are replaced and the broker restarts, as the package has
# it under systemd.
upgraded() {
  local next=$work/next deb=plimsoll_$version-2_$(dpkg --print-architecture).deb
  dpkg-deb -R "$dist"/plimsoll_*.deb "$next"
  sed -i "s/^Version: .*/Version: $version-2/; s/ (= $version-1)//" "$next/DEBIAN/control"
  dpkg-deb --root-owner-group -Zxz -z0 -b "$next" "$2/packages/$deb" >/dev/null
  rm -rf "$next"
  cat >"$2/packages/upgrade" <<'END'
set -e
known() { plimsoll ps --json | grep -q '"name": "kept"'; }
soon() {
  for _ in $(seq 100); do
    if "$@"; then return 0; fi
    sleep 0.1
  done
  echo "in vain: $*"
  return 1
}
plimsolld --system &
broker=$!
soon test -S /run/plimsoll/broker.sock
plimsoll run --name kept -- sleep 600 &
kept=$!
soon known
dpkg --force-depends -i "$1"
kill -0 $kept
kill $broker
wait $broker || true
plimsolld --system &
soon known
kill -0 $kept
END
  check "$1: a program lives through an upgrade, and is known to the new broker" \
    within "$2" sh /packages/upgrade "/packages/$deb"
}

rpms() {
  local root=$work/rpms file left
  mkdir "$root"
  for file in "$dist"/*.rpm; do
    check "${file##*/}: its sums fit" rpm -K --nosignature "$file"
    check "${file##*/}: it has files" test -n "$(rpm -qlp "$file")"
  done
  check 'rpm: the configuration is one' sh -c "rpm -qp --configfiles '$dist'/plimsoll-[0-9]*.rpm |
    grep -q /etc/plimsoll/plimsoll.toml"
  check 'rpm: the C library that is needed is named' sh -c "rpm -qp --requires '$dist'/plimsoll-[0-9]*.rpm |
    grep -q 'glibc >= 2.34'"
  check 'rpm: no libgc is provided to others' sh -c "! rpm -qp --provides '$dist'/*.rpm | grep 'libgc.so'"
  check 'rpm: installed into an empty root' rpm --root "$root" -i --nodeps --noscripts "$dist"/*.rpm
  check 'rpm: all is there as it should be' rpm --root "$root" -Va --nodeps --noscripts
  check 'rpm: erased' rpm --root "$root" -e --nodeps --noscripts \
    $(rpm --root "$root" -qa --qf '%{NAME} ')
  # The database of packages stays; each rpm has it elsewhere.
  left=$(find "$root" \( -name '*rpmdb*' -o -path "$root/var" \) -prune -o ! -type d -print)
  check "rpm: nothing is left: $left" test -z "$left"
}

image() {
  local root=$work/image layout=$work/layout name
  mkdir "$root" "$layout"
  tar -xf "$dist"/*.oci.tar -C "$layout"
  for name in "$layout"/blobs/sha256/*; do
    check "image: blob ${name##*/}" test "$(sha256sum <"$name" | cut -d' ' -f1)" = "${name##*/}"
  done
  # The layer is the only blob that is compressed.
  for name in "$layout"/blobs/sha256/*; do
    if gzip -t "$name" 2>/dev/null; then tar -xzf "$name" -C "$root"; fi
  done
  check 'image: it has no shell' test ! -e "$root/bin/sh" -a ! -e "$root/usr/bin/sh"
  check 'image: the broker starts' chroot "$root" /usr/bin/plimsolld --version
  check 'image: plimsoll runs' chroot "$root" /usr/bin/plimsoll doctor
}

[ $# -gt 0 ] || set -- bookworm trixie
for name in "$@"; do
  clean "$name"
  say "Debian $name"
  minimal "$name"
  whole "$name"
done
say 'RPM'
rpms
say 'image'
image
say "$faults faults"
exit $((faults > 0))
