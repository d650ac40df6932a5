#!/usr/bin/env bash
# Makes the picture of the page about metrics, of programs that really run and of a real Prometheus, in three
# minutes:   tools/pictures/metrics.sh [PLIMSOLL]      (target/release/plimsoll when absent)
# As any user. It needs a JDK, python3, cargo, and the Prometheus that `tools/setup.sh test` fetches.
set -euo pipefail
own=$(realpath "${1:-target/release/plimsoll}")
cd "$(dirname "$0")"
into=$(realpath ../../docs/src)/pictures
root=$(realpath ../..)
work=$(mktemp -d)
export PLIMSOLL_SOCKET=$work/broker/broker.sock
started=()
finish() {
  local pid
  for pid in "${started[@]}"; do if kill "$pid"; then wait "$pid" || true; fi; done 2>/dev/null
  rm -rf "$work"
}
trap finish EXIT

javac -d "$work" Load.java
cat >"$work/shop.toml" <<END
name = "shop"
budget = "900M"
[[program]]
name = "cache"
weight = 200
command = "java -cp $work Load 180 100 600"
[[program]]
name = "search"
command = "java -cp $work Load 80 100 600"
[[program]]
name = "hog"
weight = 50
start = "60s"
command = "python3 $work/hog.py"
END
cat >"$work/hog.py" <<END
import time
held = []
for _ in range(36):
    held.append(bytearray(b"x") * (8 << 20))
    time.sleep(1)
time.sleep(600)
END
cat >"$work/prometheus.yml" <<END
global: {scrape_interval: 1s}
scrape_configs: [{job_name: plimsoll, static_configs: [{targets: ["127.0.0.1:9757"]}]}]
END
mkdir -m 700 "$work/broker"
"$own" metrics --listen 127.0.0.1:9757 &
started+=($!)
PATH=$root/.cache/prometheus/usr/bin:$PATH prometheus --log.level=error \
  --config.file="$work/prometheus.yml" --storage.tsdb.path="$work/tsdb" --web.listen-address=127.0.0.1:9758 &
started+=($!)
"$own" run -f "$work/shop.toml" &
started+=($!)
sleep 150
python3 metrics.py "$root/packaging/grafana/plimsoll.json" 127.0.0.1:9758 150 >"$work/charts.json"
(cd "$root" && cargo run -q -p plimsoll-picture --example charts) <"$work/charts.json" >"$into/metrics.svg"
ls -l "$into/metrics.svg"
