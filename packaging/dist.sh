#!/usr/bin/env bash
# Makes in dist/ what is handed out: packaging/dist.sh [KIND...], of tarball, deb, rpm, image and sbom (all
# of them when absent). `make dist` calls it. The same commit gives the same bytes: times are those of the
# commit, names are sorted, and no path of this machine is in a binary.
# OUT=DIR is written to instead of dist; BINARIES=DIR has the binaries, which are else built here;
# COMPRESSION=0..9 of Debian's packages, for tests.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C TZ=UTC
umask 022
kinds=" ${*:-tarball deb rpm image sbom} "
out=$(realpath -m "${OUT:-dist}")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
machine=$(uname -m)
case $machine in
  x86_64) debian=amd64 ;;
  aarch64) debian=arm64 ;;
  *) printf 'dist: no packages are made for %s\n' "$machine" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binaries=${BINARIES:-target/dist}

wanted() { case $kinds in *" $1 "*) ;; *) return 1 ;; esac; }
fail() { printf 'dist: %s\n' "$*" >&2; exit 1; }

# Builds the binaries without the paths of this checkout and of cargo's sources.
build() {
  local cargo=${CARGO_HOME:-$HOME/.cargo}
  RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/plimsoll --remap-path-prefix=$cargo=/cargo" \
    CFLAGS="${CFLAGS:-} -ffile-prefix-map=$PWD=/plimsoll -ffile-prefix-map=$cargo=/cargo" \
    cargo build --locked --profile dist $(printf -- '-p plimsoll-%s ' cli broker lab libgc c) \
    -p plimsoll-agent-jvm -p plimsoll-agent-libgc -p plimsoll-agent-tracer
}

# Gives all files below a directory the time of the commit.
dated() { find "$1" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +; }

# installed DIRECTORY PREFIX LIBDIR: installs there, with a static library that has no symbols for debuggers.
installed() {
  DESTDIR=$1 LIBDIR=$3 BINARIES=$binaries tools/install.sh "$2" >/dev/null
  [ ! -s "$1$2/$3/libplimsoll.a" ] || strip --strip-debug "$1$2/$3/libplimsoll.a"
}

# staged DIRECTORY LIBDIR: what is installed below /usr, for packages, with compressed man pages.
staged() {
  installed "$1" /usr "$2"
  rm -r "$1/usr/share/doc"
  find "$1/usr/share/man" -type f -exec gzip -n9 {} +
  install -D -m 644 packaging/plimsoll.toml "$1/etc/plimsoll/plimsoll.toml"
  if [ "$2" != lib64 ]; then
    # Debian's zsh looks elsewhere.
    mv "$1/usr/share/zsh/site-functions" "$1/usr/share/zsh/vendor-completions"
  fi
  dated "$1"
}

# files STAGE LIBDIR PACKAGE: the package's files, by the globs of packaging/packages/PACKAGE.files. A file
# that the globs of several packages fit is in the one whose globs are longest: all pages of `plimsoll` begin
# with the same letters.
files() {
  local all=$work/$(basename "$1").owners
  [ -e "$all" ] || owners "$1" "$2" >"$all"
  sed -n "s|^$3 ||p" "$all"
}

# owners STAGE LIBDIR: a line `PACKAGE FILE` for each file of the stage.
owners() {
  local file list glob best owner
  (cd "$1" && find . ! -type d -printf '%P\n' | sort) | while read -r file; do
    best=0 owner=
    for list in packaging/packages/*.files; do
      while read -r glob; do
        glob=${glob//@LIBDIR@/$2}
        # shellcheck disable=SC2053
        if [[ $file == $glob ]] && [ ${#glob} -gt $best ]; then best=${#glob} owner=$list; fi
      done <"$list"
    done
    [ -n "$owner" ] || fail "$file is in no list of packaging/packages"
    printf '%s %s\n' "$(basename "$owner" .files)" "$file"
  done
}

packages() { basename -s .files packaging/packages/*.files; }

# The licences of all crates in the binaries.
notices() {
  [ -e "$work/THIRD-PARTY" ] || packaging/inventory.py notices >"$work/THIRD-PARTY"
  cat "$work/THIRD-PARTY"
}

tarball() {
  local name=plimsoll-$version-$machine-linux
  installed "$work/tarball" /usr/local lib
  mv "$work/tarball/usr/local" "$work/$name"
  notices >"$work/$name/share/doc/plimsoll/THIRD-PARTY"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$work" -c "$name" |
    gzip -n9 >"$out/$name.tar.gz"
}

# deb PACKAGE: one package of Debian.
deb() {
  local root=$work/deb/$1 doc=$work/deb/$1/usr/share/doc/$1 kind from
  mkdir -p "$root/DEBIAN" "$doc"
  files "$work/debian" "lib/$machine-linux-gnu" "$1" | tar -C "$work/debian" -c -T - | tar -C "$root" -x
  cp packaging/copyright "$doc/copyright"
  notices | gzip -n9 >"$doc/THIRD-PARTY.gz"
  gzip -n9 <CHANGELOG.md >"$doc/changelog.gz"
  for kind in postinst prerm postrm triggers shlibs; do
    from=packaging/packages/$1.$kind
    [ ! -e "$from" ] || install -m "$([ -x "$from" ] && echo 755 || echo 644)" "$from" "$root/DEBIAN/$kind"
  done
  (
    cd "$root"
    find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums
  )
  [ ! -d "$root/etc" ] || (cd "$root" && find etc -type f -printf '/%p\n' | sort >DEBIAN/conffiles)
  {
    printf 'Package: %s\nSource: plimsoll\nVersion: %s\nArchitecture: %s\n' "$1" "$version-1" "$debian"
    printf 'Maintainer: The Plimsoll authors <plimsoll@localhost>\nPriority: optional\n'
    printf 'Installed-Size: %s\n' "$(size "$root")"
    sed "s/@VERSION@/$version-1/" "packaging/packages/$1.control"
  } >"$root/DEBIAN/control"
  dated "$root"
  dpkg-deb --root-owner-group -Zxz -z"${COMPRESSION:-6}" --threads-max=1 -b "$root" \
    "$out/$1_$version-1_$debian.deb" >/dev/null
}

# The kibibytes that files take, by their lengths: blocks depend on the file system.
size() { find "$1" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }'; }

rpms() {
  local name file
  mkdir -p "$work/lists"
  for name in $(packages); do
    local doc=$work/rpm/usr/share/doc/$name
    files "$work/rpm" lib64 "$name" | while read -r file; do
      case $file in
        etc/*) printf '%%config(noreplace) /%s\n' "$file" ;;
        *) printf '/%s\n' "$file" ;;
      esac
    done >"$work/lists/$name"
    mkdir -p "$doc"
    cp LICENSE-MIT LICENSE-APACHE "$doc"
    notices | gzip -n9 >"$doc/THIRD-PARTY.gz"
    printf '%%license /usr/share/doc/%s\n' "$name" >>"$work/lists/$name"
  done
  dated "$work/rpm"
  rpmbuild -bb --quiet --define "_topdir $work/rpmbuild" --define "_rpmdir $out" \
    --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' --define "version $version" \
    --define "stage $work/rpm" --define "lists $work/lists" --define '_buildhost reproducible' \
    --define 'use_source_date_epoch_as_buildtime 1' --define 'clamp_mtime_to_source_date_epoch 1' \
    --define '_binary_payload w6.xzdio' --define "_prefix /usr" packaging/plimsoll.spec
}

image() {
  local doc=$work/debian/usr/share/doc/plimsoll
  mkdir -p "$doc"
  cp LICENSE-MIT LICENSE-APACHE "$doc"
  notices >"$doc/THIRD-PARTY"
  packaging/image.py "$work/debian" "$out/plimsoll-$version-$machine.oci.tar" "$version" \
    "$(git rev-parse HEAD 2>/dev/null || echo unknown)"
}

mkdir -p "$out"
[ -n "${BINARIES:-}" ] || build
if wanted deb || wanted image; then staged "$work/debian" "lib/$machine-linux-gnu"; fi
if wanted tarball; then tarball; fi
if wanted deb; then for name in $(packages); do deb "$name"; done; fi
if wanted rpm; then staged "$work/rpm" lib64; rpms; fi
if wanted image; then image; fi
if wanted sbom; then packaging/inventory.py sbom "$version" >"$out/plimsoll-$version.cdx.json"; fi
cd "$out"
find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS
ls -l -- *
