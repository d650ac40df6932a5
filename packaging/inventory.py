#!/usr/bin/env python3
"""What the programs that we hand out consist of, from `cargo metadata`.

inventory.py sbom VERSION    a bill of materials (CycloneDX 1.5, JSON)
inventory.py notices         the licences of the crates of others, each text once
"""

import json
import os
import pathlib
import platform
import subprocess
import sys

# The packages that are handed out.
ROOTS = [
    "plimsoll-cli",
    "plimsoll-broker",
    "plimsoll-lab",
    "plimsoll-libgc",
    "plimsoll-c",
    "plimsoll-agent-jvm",
    "plimsoll-agent-libgc",
    "plimsoll-agent-tracer",
]


def reached():
    """The crates that come into the binaries, and for each the names of those that it needs."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    todo = [id for id, package in packages.items() if package["name"] in ROOTS]
    needs = {}
    while todo:
        id = todo.pop()
        if id in needs:
            continue
        # Dependencies for tests and for building have a kind.
        linked = [
            dep["pkg"]
            for dep in nodes[id]["deps"]
            if any(kind["kind"] is None for kind in dep["dep_kinds"])
        ]
        needs[id] = sorted(linked)
        todo += linked
    order = sorted(needs, key=lambda id: (packages[id]["name"], packages[id]["version"]))
    return [(packages[id], [packages[need] for need in needs[id]]) for id in order]


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package):
    found = {
        "type": "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        found["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return found


def sbom(version):
    crates = reached()
    time = subprocess.run(
        ["date", "-u", "-d", f"@{os.environ.get('SOURCE_DATE_EPOCH', '0')}", "+%Y-%m-%dT%H:%M:%SZ"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application",
                "bom-ref": "plimsoll",
                "name": "plimsoll",
                "version": version,
            },
        },
        "components": [component(package) for package, _ in crates],
        "dependencies": [
            {
                "ref": "plimsoll",
                "dependsOn": [reference(package) for package, _ in crates if package["name"] in ROOTS],
            }
        ]
        + [
            {"ref": reference(package), "dependsOn": [reference(need) for need in needs]}
            for package, needs in crates
        ],
    }
    print(json.dumps(document, indent=1))


def notices():
    texts = {}
    for package, _ in reached():
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']} ({package['license']})"
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(
            file
            for pattern in ("LICEN[CS]E*", "COPYING*", "NOTICE*", "*/LICENSE", "*/COPYING")
            for file in folder.glob(pattern)
            if file.is_file()
        )
        for file in files or [None]:
            text = file.read_text("utf-8", "replace").strip() if file else "(it has no file of its licence)"
            texts.setdefault(text, []).append(name)
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        print("=" * 78, *dict.fromkeys(names), "", text, "", sep="\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sbom", version]:
            sbom(version)
        case ["notices"]:
            notices()
        case _:
            sys.exit(__doc__)
