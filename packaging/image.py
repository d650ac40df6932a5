#!/usr/bin/env python3
"""Makes the image of a container, as an archive of the OCI layout, without a container engine.

image.py ROOT ARCHIVE VERSION REVISION

The image has the files below ROOT, the C library and what else the programs load, from this machine, and a
table of users. It has no shell and no package manager.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tarfile

TIME = int(os.environ["SOURCE_DATE_EPOCH"])
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LEFT_OUT = ["usr/include", "usr/share/man", "usr/share/bash-completion", "usr/share/fish", "usr/share/zsh",
            "usr/lib/systemd", "usr/lib/sysusers.d"]
USERS = "root:x:0:0:root:/root:/sbin/nologin\nplimsoll:x:999:999:Plimsoll memory broker:/:/sbin/nologin\n"
GROUPS = "root:x:0:\nplimsoll:x:999:\n"


def libraries(program):
    """The paths of the libraries that a program loads, by its loader."""
    told = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"(/\S+) \(0x", told)


def licence(path):
    """The file of the licence of the Debian package that a library comes from, if there is one."""
    for name in (path, os.path.realpath(path), "/usr" + path):
        told = subprocess.run(["dpkg-query", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout
        if told:
            return f"/usr/share/doc/{told.split(':')[0]}/copyright"
    return None


def contents(root):
    """The paths in the image, with what they have: bytes, or the target of a link."""
    found = {"etc/passwd": USERS.encode(), "etc/group": GROUPS.encode()}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_dir() and not path.is_symlink() or any(name.startswith(out + "/") for out in LEFT_OUT):
            continue
        if name.endswith((".a", ".pc")):
            continue
        found[name] = os.readlink(path) if path.is_symlink() else path.read_bytes()
    programs = [str(root / name) for name in found if name.startswith("usr/bin/")]
    for path in sorted({path for program in programs for path in libraries(program)}):
        found[path.lstrip("/")] = pathlib.Path(path).read_bytes()
        if text := licence(path):
            found[text.lstrip("/")] = pathlib.Path(text).read_bytes()
    return found


def entry(name, kind, mode, size=0):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.mtime = kind, mode, size, TIME
    return info


def layer(root):
    """The files as a tar archive."""
    files = contents(root)
    folders = {str(parent) for name in files for parent in pathlib.PurePath(name).parents} - {"."}
    folders |= {"run", "run/plimsoll", "tmp"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(folders | set(files)):
            if name in folders:
                tar.addfile(entry(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755))
            elif isinstance(files[name], str):
                link = entry(name, tarfile.SYMTYPE, 0o777)
                link.linkname = files[name]
                tar.addfile(link)
            else:
                runs = files[name].startswith(b"\x7fELF")
                info = entry(name, tarfile.REGTYPE, 0o755 if runs else 0o644, len(files[name]))
                tar.addfile(info, io.BytesIO(files[name]))
    return out.getvalue()


def main(root, archive, version, revision):
    time = subprocess.run(["date", "-u", "-d", f"@{TIME}", "+%Y-%m-%dT%H:%M:%SZ"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    blobs = {}

    def blob(kind, data):
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    plain = layer(pathlib.Path(root))
    config = {
        "created": time,
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/plimsolld"],
            "Cmd": ["--system"],
            "Labels": {
                "org.opencontainers.image.title": "plimsoll",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.revision": revision,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(plain).hexdigest()]},
        "history": [{"created": time, "created_by": "packaging/image.py"}],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob("config.v1+json", json.dumps(config).encode()),
        "layers": [blob("layer.v1.tar+gzip", gzip.compress(plain, 9, mtime=0))],
    }
    first = blob("manifest.v1+json", json.dumps(manifest).encode())
    first["annotations"] = {"org.opencontainers.image.ref.name": f"plimsoll:{version}"}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [first]}
    blobs["index.json"] = json.dumps(index).encode()
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in sorted(blobs.items()):
            tar.addfile(entry(name, tarfile.REGTYPE, 0o644, len(data)), io.BytesIO(data))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
