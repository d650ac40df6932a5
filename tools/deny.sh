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

for manifest in Cargo.toml fuzz/Cargo.toml; do
  printf 'deny: %s\n' "$manifest"
  cargo deny --log-level error --config deny.toml --manifest-path "$manifest" check licenses bans sources
done

if timeout "$patience" cargo deny --log-level error --config deny.toml check advisories >"$said" 2>&1; then
  cat "$said"
elif grep -qE 'advisory.database' "$said" && ! grep -qE '^error\[' "$said"; then
  printf 'deny: skipped: known advisories: their database cannot be fetched: %s\n' \
    "$(grep . "$said" | tail -n 1)"
elif [ ! -s "$said" ]; then
  printf 'deny: skipped: known advisories: their database did not answer within %d s\n' "$patience"
else
  cat "$said"
  exit 1
fi
