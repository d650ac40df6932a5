#!/usr/bin/env bash
# The clients in other languages: tools/clients.sh test|lint [python|go|java|node...] (all when absent).
# Tests use the broker PLIMSOLLD, or that of target/debug or target/release. A language that is not installed
# is skipped, and said so; tools/setup.sh clients installs what the distribution has.
set -uo pipefail
cd "$(dirname "$0")/.."
root=$PWD
what=${1:-test}
shift || true
[ $# -gt 0 ] || set -- python go java node
for place in "${PLIMSOLLD:-}" target/debug/plimsolld target/release/plimsolld; do
  if [ -x "$place" ]; then
    PLIMSOLLD=$(realpath "$place")
    export PLIMSOLLD
    break
  fi
done

# has COMMAND LANGUAGE: whether the command is there.
has() {
  # The functions below have the names of commands.
  type -P "$1" >/dev/null && return 0
  echo "skipped: there is no $1 for the client in $2 (tools/setup.sh clients)"
  return 1
}

# fetched COMMAND...: whether what the tests need could be had from its registry.
fetched() {
  "$@" && return 0
  echo "skipped: a registry gave nothing ($*)"
  return 1
}

python() {
  has python3 Python || return 0
  cd clients/python-memory
  local own=$root/.cache/client-python
  [ -x "$own/bin/python" ] || python3 -m venv "$own" || return 1
  fetched "$own/bin/pip" install -q --disable-pip-version-check -e '.[test,lint]' || return 0
  if [ "$1" = lint ]; then
    "$own/bin/ruff" check -q . && "$own/bin/ruff" format -q --check . && "$own/bin/mypy"
  else
    "$own/bin/python" -m pytest -q
  fi
}

go() {
  has go Go || return 0
  local own=$root/.cache/client-go module
  for module in . cache automemlimit; do
    (
      cd "clients/go/$module"
      fetched command go mod download || exit 0
      if [ "$1" = lint ]; then
        [ -x "$own/staticcheck" ] ||
          GOBIN=$own command go install honnef.co/go/tools/cmd/staticcheck@v0.7.0 || exit 1
        [ -z "$(gofmt -l .)" ] && command go vet ./... && "$own/staticcheck" ./...
      else
        command go test ./...
      fi
    ) || return 1
  done
}

java() {
  has mvn Java || return 0
  cd clients/java
  fetched mvn -B -q dependency:go-offline || return 0
  # Sources, tests and javadoc without a warning.
  if [ "$1" = lint ]; then mvn -B -q -DskipTests verify; else mvn -B -q test; fi
}

node() {
  has npm Node || return 0
  cd clients/node
  fetched npm ci --silent --no-audit --no-fund || return 0
  if [ "$1" = lint ]; then npm run --silent lint; else npm test --silent; fi
}

failed=()
for language in "$@"; do
  printf '== the client in %s: %s\n' "$language" "$what"
  ("$language" "$what") || failed+=("$language")
done
[ ${#failed[@]} = 0 ] || { printf 'error: the client in %s failed\n' "${failed[@]}"; exit 1; }
