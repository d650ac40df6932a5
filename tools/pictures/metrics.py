"""Asks a Prometheus what some panels of the dashboard show, as input of `charts`:

python3 metrics.py DASHBOARD.JSON ADDRESS SECONDS >charts.json
"""

import json
import sys
import time
import urllib.parse
import urllib.request

PANELS = [
    "How the memory is divided",
    "Uses (solid) and limits (dashed)",
    "Owed",
    "Collections",
    "Revocations",
]
UNITS = {"bytes": ("MiB", 1 << 20), "ops": ("a second", 1), "none": ("", 1)}
NOTHING = 1e-9


def asked(address, expression, start, end):
    for name, value in (("$__rate_interval", "10s"), ("$instance", ".*")):
        expression = expression.replace(name, value)
    query = urllib.parse.urlencode({"query": expression, "start": start, "end": end, "step": 1})
    with urllib.request.urlopen(f"http://{address}/api/v1/query_range?{query}") as answer:
        return json.load(answer)["data"]["result"]


def named(legend, labels):
    for name, value in labels.items():
        legend = legend.replace("{{" + name + "}}", value)
    return legend


def main():
    dashboard, address, seconds = sys.argv[1:]
    end = time.time()
    start = end - float(seconds)
    with open(dashboard, encoding="utf-8") as file:
        panels = {panel["title"]: panel for panel in json.load(file)["panels"]}
    charts = []
    for panel in map(panels.get, PANELS):
        unit, divisor = UNITS[panel["fieldConfig"]["defaults"]["unit"]]
        is_stacked = panel["title"] == PANELS[0]
        series, colours, below = [], {}, {}
        for target in panel["targets"]:
            for one in asked(address, target["expr"], start, end):
                name = named(target["legendFormat"], one["metric"])
                is_limit = name.endswith(" limit")
                points = [(at - start, float(value) / divisor) for at, value in one["values"]]
                if is_stacked and name != "capacity":
                    points = [(at, value + below.get(at, 0)) for at, value in points]
                    below = dict(points)
                if max(value for _, value in points) < NOTHING:
                    continue
                colour = colours.setdefault(name.removesuffix(" limit"), len(colours))
                kind = "dashed" if is_limit else "line"
                shown = "" if is_limit else name
                series.append({"name": shown, "note": "", "points": points, "colour": colour, "kind": kind})
        last = max((value for one in series for _, value in one["points"]), default=1)
        charts.append({"title": panel["title"], "note": panel["description"], "across": "seconds",
                       "up": unit, "last": last * 1.05, "series": series})
    json.dump(charts, sys.stdout)


main()
