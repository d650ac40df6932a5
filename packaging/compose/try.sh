#!/usr/bin/env bash
# Runs packaging/compose/compose.yaml for real, with Docker and the image that packaging/image.py makes, and
# checks it: packaging/compose/try.sh. `make test-containers` calls it. Needs root, and what
# `tools/setup.sh containers` fetches. BINARIES=DIR has our programs (target/release).
#
# The engine is started here, with its files in a folder of its own, and ended with all that it ran. The
# services are a Java program, Guile and a cache, on the files of this machine; no image is downloaded. Says
# `skipped: …` and ends with 0 where no engine can run.
set -euo pipefail
cd "$(dirname "$0")/../.."
binaries=$(realpath "${BINARIES:-target/release}")
cache=$PWD/.cache/docker
here=$PWD/packaging/compose

say() { printf 'try: %s\n' "$*"; }
fail() {
  say "FAILED: $*" >&2
  # shellcheck disable=SC2015
  [ ! -e "$work/compose.override.yaml" ] || { compose ps; compose logs --tail=20; } >&2 2>&1 || true
  exit 1
}
skip() { printf 'skipped: containers: %s\n' "$*"; exit 0; }

[ "$(id -u)" = 0 ] || skip "an engine needs root"
PATH=$cache/usr/bin:$cache/usr/sbin:$PATH
for tool in dockerd docker containerd docker-compose python3 java javac guile; do
  command -v "$tool" >/dev/null || skip "$tool is not there (tools/setup.sh containers)"
done
for built in plimsoll plimsolld examples/cache; do
  [ -x "$binaries/$built" ] || fail "$binaries/$built is not there: \`make test-containers\` builds it"
done

work=$(mktemp -d /tmp/plimsoll-try-XXXXXX)
name=$(basename "$work")
version=1
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || version=2
if [ $version = 1 ]; then group=/sys/fs/cgroup/memory/$name; else group=/sys/fs/cgroup/$name; fi
export DOCKER_HOST=unix://$work/docker.sock PLIMSOLL_GROUP=/$name COMPOSE_PROJECT_NAME=$name
export PLIMSOLL_IMAGE=plimsoll:try SEARCH_IMAGE=services:try
export REPORT_IMAGE=$SEARCH_IMAGE CACHE_IMAGE=$SEARCH_IMAGE
compose() { docker-compose -f "$here/compose.yaml" -f "$work/compose.override.yaml" "$@"; }

engine=
end() {
  trap - EXIT
  if [ -n "$engine" ]; then
    [ ! -e "$work/compose.override.yaml" ] || compose down -v -t 5 >>"$work/log" 2>&1 || true
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
  fi
  for mounted in $(awk -v work="$work/" 'index($2, work) == 1 { print $2 }' /proc/mounts | sort -r); do
    umount "$mounted" || true
  done
  rmdir /sys/fs/cgroup/{,*/}{"$name",docker} 2>/dev/null || true
  rm -rf "$work"
}
trap end EXIT

# The engine, without a network: no service has a port.
dockerd --data-root "$work/data" --exec-root "$work/exec" --pidfile "$work/pid" --host "$DOCKER_HOST" \
  --iptables=false --ip6tables=false --bridge=none --storage-driver=vfs >"$work/dockerd.log" 2>&1 &
engine=$!
for _ in $(seq 100); do
  docker version >/dev/null 2>&1 && break
  kill -0 "$engine" 2>/dev/null || break
  sleep 0.2
done
docker version >/dev/null 2>&1 || skip "dockerd does not start: $(tail -n 1 "$work/dockerd.log")"

# Our image: its layer and its settings, as they are in the archive.
mkdir "$work/binaries" "$work/app"
find "$binaries" -maxdepth 1 -type f \( -name 'plimsoll*' -o -name 'libplimsoll*.so' \) ! -name '*.d' \
  -exec cp -t "$work/binaries" {} +
strip "$work"/binaries/* 2>/dev/null || true
BINARIES=$work/binaries OUT=$work packaging/dist.sh image >"$work/log" 2>&1 ||
  fail "no image: $(tail "$work/log")"
python3 - "$work" "$work"/*.oci.tar <<'PYTHON'
import json, pathlib, sys, tarfile
work, archive = pathlib.Path(sys.argv[1]), tarfile.open(sys.argv[2])
blob = lambda digest: archive.extractfile("blobs/" + digest.replace(":", "/")).read()
index = json.load(archive.extractfile("index.json"))
manifest = json.loads(blob(index["manifests"][0]["digest"]))
config = json.loads(blob(manifest["config"]["digest"]))["config"]
(work / "layer.tar.gz").write_bytes(blob(manifest["layers"][0]["digest"]))
changes = [f"ENV {one}" for one in config["Env"]]
changes += [f"ENTRYPOINT {json.dumps(config['Entrypoint'])}", f"CMD {json.dumps(config['Cmd'])}"]
(work / "changes").write_text("\n".join(changes) + "\n")
PYTHON
mapfile -t changes < <(sed 's/^/--change=/' "$work/changes")
docker import "${changes[@]}" "$work/layer.tar.gz" plimsoll:try >/dev/null || fail "the image is refused"

# The image of the services has only folders: their files are this machine's.
mkdir -p "$work/files/"{etc,tmp,app,proc,sys,dev,run,usr,opt/plimsoll}
for link in bin lib lib64 sbin; do [ ! -L "/$link" ] || ln -s "usr/$link" "$work/files/$link"; done
cp /etc/passwd /etc/group "$work/files/etc/"
chmod 1777 "$work/files/tmp"
tar -C "$work/files" -c . | docker import - services:try >/dev/null
javac -d "$work/app" bench/programs/Container.java
cp bench/programs/churn.scm "$binaries/examples/cache" "$work/app/"
java=$(realpath "$(command -v java)")
cat >"$work/compose.override.yaml" <<YAML
services:
  search:
    network_mode: none
    command: [/opt/plimsoll/bin/plimsoll, run, -n, search, --weight, "200", --, $java, -XX:+UseG1GC, -cp,
              /app, Container, "60", "150", "36000", steady]
    volumes: [/usr:/usr:ro, /etc:/etc:ro, $work/app:/app:ro]
  report:
    network_mode: none
    command: [/opt/plimsoll/bin/plimsoll, run, -n, report, --, guile, --no-auto-compile, /app/churn.scm,
              "40", "36000"]
    volumes: [/usr:/usr:ro, /etc:/etc:ro, $work/app:/app:ro]
  cache:
    network_mode: none
    mem_limit: 768m
    memswap_limit: 768m
    command: [/app/cache, "36000"]
    volumes: [/usr:/usr:ro, /etc:/etc:ro, $work/app:/app:ro]
YAML

# The limit of all, without swap.
mkdir "$group"
if [ $version = 1 ]; then
  for file in memory.limit_in_bytes memory.memsw.limit_in_bytes; do
    [ ! -e "$group/$file" ] || echo 1G >"$group/$file"
  done
  echo 0 >"$group/memory.swappiness"
else
  echo 1G >"$group/memory.max"
  [ ! -e "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max"
fi

compose up -d >>"$work/log" 2>&1 || fail "compose up: $(tail "$work/log")"
broker=$(compose ps -q broker)

# look EXPRESSION: whether it holds for the listing: `by` has the programs by name, `told` the listing.
look() {
  docker exec "$broker" /usr/bin/plimsoll ps --json 2>/dev/null >"$work/listing" || return 1
  python3 - "$work/listing" "$1" <<'PYTHON'
import json, sys
told = json.load(open(sys.argv[1]))
def below(some):
    for one in some:
        yield one
        yield from below(one.get("children", []))
by = {one["name"]: one for one in below(told["principals"])}
M = 1 << 20
sys.exit(0 if eval(sys.argv[2]) else 1)
PYTHON
}

# awaits WHAT EXPRESSION: waits until it holds.
awaits() {
  for _ in $(seq 300); do
    look "$2" 2>/dev/null && { say "$1"; return 0; }
    sleep 0.2
  done
  cat "$work/listing" >&2
  fail "never: $1"
}

# Nobody was killed, and all run.
all_live() {
  local file kills state
  # Under version 1 each group counts its own.
  for file in $(find "$group" -name memory.oom_control -o -name memory.events); do
    kills=$(sed -n 's/^oom_kill //p' "$file")
    [ "${kills:-0}" = 0 ] || fail "$kills killed in $file, $1"
  done
  for id in $(compose ps -q); do
    state=$(docker inspect --format '{{.Name}} {{.State.Running}} {{.State.OOMKilled}}' "$id")
    case $state in *" true false") ;; *) fail "$state, $1" ;; esac
  done
  say "all four run and nobody was killed, $1"
}

show() { docker exec "$broker" /usr/bin/plimsoll ps; }

three='"search", "report", "my-cache"'
awaits "the three have joined, each as a process with a share" \
  "all(by[name]['pid'] and by[name]['limit'] > 0 for name in ($three))"
awaits "the broker shares out the limit of the group" "told['capacity'] == 1024 * M"
awaits "the cache has filled its share" "by['my-cache']['uses'] > 150 * M"
awaits "they use more than 450 MiB" "sum(by[name]['uses'] for name in ($three)) > 450 * M"
show
all_live "at 1 GiB"
"$here/resize.sh" "$group" 512M || fail "the group cannot be made smaller"
awaits "the broker shares out the half" "told['capacity'] == 512 * M"
awaits "the three are within the half" "sum(by[name]['uses'] for name in ($three)) < 480 * M"
sleep 2
show
all_live "at 512 MiB"
"$here/resize.sh" "$group" 1G
"$here/resize.sh" "$(compose ps -q cache)" 128M || fail "the cache's own container cannot be made smaller"
awaits "the cache keeps to the limit of its own container" \
  "by['my-cache']['limit'] <= 128 * M and by['my-cache']['uses'] <= 128 * M"
all_live "with the cache in 128 MiB"
compose restart -t 5 broker >>"$work/log" 2>&1
awaits "the three have joined the next broker" "all(by[name]['pid'] for name in ($three))"
all_live "after the broker was restarted"
compose stop -t 20 search >>"$work/log" 2>&1
code=$(docker inspect --format '{{.State.ExitCode}}' "$(compose ps -q search)")
[ "$code" = 143 ] || fail "the Java program's container ended with $code, not with 143 for SIGTERM"
say "a container that is stopped ends with its program's status, 143"
