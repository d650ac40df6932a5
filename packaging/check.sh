#!/usr/bin/env bash
# Checks what packaging/dist.sh made: packaging/check.sh [DIRECTORY] (dist when absent); or only these
# programs and libraries: packaging/check.sh --elf FILE... Fails when
# - a program or library needs a symbol of a C library after 2.34 (Debian 12 has 2.36, RHEL 9 and Amazon Linux
#   2023 have 2.34), or a library that our packages do not name;
# - it names a path of this machine;
# - a package has more than 8 MB, or a sum is wrong.
set -euo pipefail
export LC_ALL=C
newest=2.34
libraries='^(libc|libm|libgcc_s|ld-linux-x86-64|ld-linux-aarch64|linux-vdso)\.so\.[0-9]+$'
most=$((8 << 20))
faults=0

fault() { printf 'check: %s\n' "$*" >&2; faults=$((faults + 1)); }

# elf FILE NAME: checks a program or library.
elf() {
  local version library names
  for version in $(objdump -T "$1" | grep -o 'GLIBC_[0-9.]*' | sort -Vu); do
    version=${version#GLIBC_}
    [ "$(printf '%s\n' "$version" $newest | sort -V | tail -n 1)" != $newest ] || continue
    names=$(objdump -T "$1" | awk -v version="(GLIBC_$version)" 'index($0, version) { print $NF }')
    fault "$2 needs glibc $version: "$names
  done
  for library in $(objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }'); do
    [[ $library =~ $libraries ]] || fault "$2 needs $library, which no package names"
  done
  ! objdump -p "$1" | grep -qE 'R(UN)?PATH' || fault "$2 has a path for libraries"
}

# Checks all programs and libraries below a directory.
tree() {
  local file
  while IFS= read -r -d '' file; do
    [ "$(head -c 4 "$file" | tr -d '\0')" = $'\x7fELF' ] || continue
    elf "$file" "$2: ${file#"$1"/}"
    # Where the machine has other paths than a package, they would differ from build to build.
    ! grep -qaF -e "$PWD/" -e "$HOME/.cargo" "$file" || fault "$2: ${file#"$1"/} names a path of this machine"
    checked=$((checked + 1))
  done < <(find "$1" -type f -print0)
}

if [ "${1:-}" = --elf ]; then
  shift
  for file in "$@"; do elf "$file" "$file"; done
  exit $((faults > 0))
fi
directory=$(realpath "${1:-$(dirname "$0")/../dist}")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=0
for file in "$directory"/*; do
  name=${file##*/}
  mkdir "$work/$name"
  case $name in
    *.deb) dpkg-deb -x "$file" "$work/$name" ;;
    *.rpm) rpm2cpio "$file" | cpio -idm --quiet -D "$work/$name" ;;
    *.tar.gz) tar -xzf "$file" -C "$work/$name" ;;
    *) continue ;;
  esac
  tree "$work/$name" "$name"
  [ "$(stat -c %s "$file")" -le $most ] || [[ $name == *.tar.gz ]] || fault "$name has more than 8 MB"
done
(cd "$directory" && sha256sum --quiet -c SHA256SUMS) || fault "SHA256SUMS does not fit"
[ $checked -gt 0 ] || fault "$directory has no program"
printf 'checked %d programs and libraries: %d faults\n' $checked $faults
exit $((faults > 0))
