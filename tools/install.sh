#!/usr/bin/env bash
# Installs what `make build` left in target/release:
#   tools/install.sh [PREFIX]                (/usr/local when absent)
#   tools/install.sh --uninstall [PREFIX]    removes what was installed there
# DESTDIR=DIR puts everything below DIR, for packages; BINARIES=DIR takes the binaries from DIR instead of
# target/release; LIBDIR=DIR is where distributions have libraries below PREFIX, instead of lib.
set -euo pipefail
cd "$(dirname "$0")/.."
binaries=${BINARIES:-target/release}
destdir=${DESTDIR:-}
libdir=${LIBDIR:-lib}
uninstall=
if [ "${1:-}" = --uninstall ]; then
  uninstall=yes
  shift
fi
prefix=${1:-/usr/local}
# `make install DESTDIR=…` passes DESTDIR and PREFIX as one path.
if [ -n "$destdir" ]; then prefix=${prefix#"$destdir"}; fi
# PREFIX is written into units and pkg-config files, where some characters have a meaning.
case $prefix in
  *[!A-Za-z0-9/._+~@-]*)
    printf 'install: PREFIX may hold letters, digits and /._+~@- only: "%s"\n' "$prefix" >&2
    exit 2
    ;;
  /*) ;;
  *) printf 'install: PREFIX must be a full path, not "%s"\n' "$prefix" >&2; exit 2 ;;
esac
# All users may read the new directories, whatever the caller's umask is.
umask 022
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' Cargo.toml)
root=$destdir$prefix
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'install: %s\n' "$*" >&2; exit 1; }

# put MODE FILE DIRECTORY [NAME]: copies a file to a directory below PREFIX. An old file is replaced rather
# than overwritten, so that a program
# that runs from it goes on.
put() {
  local directory=$root/$3
  mkdir -p "$directory" || fail "cannot make $directory: run this as root, or give another PREFIX"
  local target
  target=$directory/${4:-$(basename "$2")}
  if ! { install -m "$1" "$2" "$target.new" && mv -f "$target.new" "$target"; } 2>"$work/why"; then
    fail "cannot write $target ($(sed 's/.*: //' "$work/why")): run this as root, or give another PREFIX"
  fi
  list "$target"
}

# list FILE: notes it, for --uninstall.
list() { printf '%s\n' "${1#"$root"/}" >>"$work/installed"; }

# built NAME: whether cargo built it. If not, says that it is left out.
built() {
  [ -e "$binaries/$1" ] && return 0
  printf 'install: left out: %s (not in %s)\n' "$1" "$binaries" >&2
  return 1
}

programs() {
  local name
  for name in plimsoll plimsolld; do
    [ -x "$binaries/$name" ] || fail "$binaries/$name is not there: \`make build\` first, or say BINARIES=DIR"
    put 755 "$binaries/$name" bin
  done
  if built plimsoll-lab; then put 755 "$binaries/plimsoll-lab" bin; fi
  for name in libplimsoll_libgc.so libplimsoll_jvm.so libplimsoll_tracer.so; do
    if built "$name"; then put 755 "$binaries/$name" lib/plimsoll; fi
  done
}

c_library() {
  if built libplimsoll.so; then
    put 755 "$binaries/libplimsoll.so" "$libdir" libplimsoll.so.0
    ln -sfn libplimsoll.so.0 "$root/$libdir/libplimsoll.so"
    list "$root/$libdir/libplimsoll.so"
  fi
  if built libplimsoll.a; then put 644 "$binaries/libplimsoll.a" "$libdir"; fi
  put 644 clients/c/include/plimsoll.h include
  described clients/c/plimsoll.pc.in plimsoll.pc
}

# described TEMPLATE NAME: a file for pkg-config.
described() {
  sed -e "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|; s|@VERSION@|$version|" "$1" >"$work/$2"
  put 644 "$work/$2" "$libdir/pkgconfig"
}

# The drop-in has a directory of its own, to which LD_LIBRARY_PATH points. Beside the system's libraries every
# program would load it.
# Headers and libgccpp are the system's (docs/src/drop-in.md).
drop_in() {
  built libplimsoll_gc.so || return 0
  put 755 "$binaries/libplimsoll_gc.so" lib/plimsoll/gc libgc.so.1
  described crates/libgc/plimsoll-gc.pc.in plimsoll-gc.pc
}

manual() {
  local page
  "$binaries/plimsoll" man "$work/man"
  for page in "$work"/man/*.1; do put 644 "$page" share/man/man1; done
  put 644 packaging/plimsolld.8 share/man/man8
}

completions() {
  local shell
  for shell in bash zsh fish; do "$binaries/plimsoll" completions "$shell" >"$work/$shell"; done
  put 644 "$work/bash" share/bash-completion/completions plimsoll
  put 644 "$work/zsh" share/zsh/site-functions _plimsoll
  put 644 "$work/fish" share/fish/vendor_completions.d plimsoll.fish
}

units() {
  local kind from unit
  for kind in system user; do
    if [ "$kind" = user ]; then from=packaging/systemd/user; else from=packaging/systemd; fi
    for unit in plimsolld.service plimsolld.socket; do
      sed "s|^ExecStart=/usr/local/bin/|ExecStart=$prefix/bin/|" "$from/$unit" >"$work/$unit"
      put 644 "$work/$unit" "lib/systemd/$kind"
    done
  done
  put 644 packaging/sysusers.d/plimsoll.conf lib/sysusers.d
}

documents() {
  local file
  for file in README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE packaging/plimsoll.toml \
    packaging/grafana/plimsoll.json; do
    put 644 "$file" share/doc/plimsoll
  done
}

# The list of what is installed, with itself as its last line.
LIST=share/doc/plimsoll/installed

removed() {
  local file
  [ -f "$root/$LIST" ] || fail "nothing to remove: there is no $root/$LIST"
  while IFS= read -r file; do
    case $file in
      /* | *..*) fail "$root/$LIST names $file, which is not below $root" ;;
    esac
    rm -f "$root/$file" || fail "cannot remove $root/$file: run this as root"
  done <"$root/$LIST"
  # Directories that are ours alone.
  rmdir "$root/lib/plimsoll/gc" "$root/lib/plimsoll" "$root/share/doc/plimsoll" 2>/dev/null || true
  printf 'removed plimsoll from below %s; the user `plimsoll` and /etc/plimsoll stay, if there are any\n' \
    "$root"
}

# The variables that the environment needs to find the files below PREFIX.
hints() {
  case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) printf '  to find the programs:  export PATH=%s/bin:$PATH\n' "$prefix" ;;
  esac
  case $prefix in /usr | /usr/local) return 0 ;; esac
  printf '  to build C programs:   export PKG_CONFIG_PATH=%s/pkgconfig\n' "$prefix/$libdir"
  printf '  to run them:           export LD_LIBRARY_PATH=%s   (or link with -Wl,-rpath,%s)\n' \
    "$prefix/$libdir" "$prefix/$libdir"
  if [ "$(id -u)" = 0 ]; then
    printf '  the service:           systemctl link %s/lib/systemd/system/plimsolld.{socket,service}\n' \
      "$prefix"
    case ${prefix#/} in
      home/* | root/*) printf '  (the service may not read below %s: ProtectHome=)\n' "$prefix" ;;
    esac
  else
    printf '  a service of yours:    systemctl --user link %s/lib/systemd/user/plimsolld.{socket,service}\n' \
      "$prefix"
  fi
}

if [ -n "$uninstall" ]; then
  removed
  exit
fi
programs
c_library
drop_in
manual
completions
units
documents
printf '%s\n' "$LIST" >>"$work/installed"
put 644 "$work/installed" share/doc/plimsoll
if [ -z "$destdir" ] && [ "$(id -u)" = 0 ]; then
  if command -v ldconfig >/dev/null; then ldconfig; fi
  # The user that runs the system's service.
  if command -v systemd-sysusers >/dev/null; then systemd-sysusers "$root/lib/sysusers.d/plimsoll.conf"; fi
  if ! id -u plimsoll >/dev/null 2>&1; then
    printf 'install: for the service, make its user: useradd --system --no-create-home plimsoll\n' >&2
  fi
fi
printf 'installed plimsoll %s below %s\n' "$version" "$root"
if [ -z "$destdir" ]; then hints; fi
