#!/usr/bin/env bash
# Checks the dependencies by deny.toml: licences, bans, sources, and known advisories if their database can be
# fetched.
# `tools/setup.sh lint` installs cargo-deny.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PWD/.cache/deny/bin:$PATH
# Seconds to wait for the database of advisories.
patience=120
said=$(mktemp)
trap 'rm -f "$said"' EXIT

manifests=(Cargo.toml fuzz/Cargo.toml)

deny() { # MANIFEST CHECKS...
  local manifest=$1
  shift
  cargo deny --log-level error --config deny.toml --manifest-path "$manifest" check "$@"
}

# Prints one line where the database cannot be had: that is no fault of the dependencies.
advisories() { # MANIFEST
  local status=0
  timeout "$patience" bash -c "$(declare -f deny); deny $1 advisories" >"$said" 2>&1 || status=$?
  if [ $status = 0 ]; then
    cat "$said"
  elif grep -qE 'advisory.database' "$said" && ! grep -qE '^error\[' "$said"; then
    printf 'deny: skipped: known advisories: their database cannot be fetched: %s\n' \
      "$(grep . "$said" | tail -n 1)"
    return 1
  elif [ ! -s "$said" ]; then
    printf 'deny: skipped: known advisories: their database did not answer within %d s\n' "$patience"
    return 1
  else
    cat "$said"
    exit 1
  fi
}

for manifest in "${manifests[@]}"; do
  printf 'deny: %s\n' "$manifest"
  deny "$manifest" licenses bans sources
done
for manifest in "${manifests[@]}"; do
  # If the list cannot be fetched for one, it cannot be fetched for the others.
  advisories "$manifest" || break
done
