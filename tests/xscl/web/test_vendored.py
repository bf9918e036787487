"""The vendored editor component is what its lock file says."""

from __future__ import annotations

import hashlib
import json
import re

from tests.project import ROOT

TOOLS = ROOT / "tools" / "codemirror"
STATIC = ROOT / "xscl" / "web" / "static"


def test_the_bundle_and_its_licences_have_the_recorded_hashes() -> None:
    lines = (TOOLS / "SHA256SUMS").read_text("utf-8").splitlines()
    recorded = {name: hashed for hashed, name in (line.split("  ") for line in lines)}
    assert {STATIC / "codemirror.js", STATIC / "codemirror.LICENSE.txt"} == {
        ROOT / name for name in recorded
    }
    for name, hashed in recorded.items():
        assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == hashed, name


def test_the_bundle_has_the_locked_versions_and_the_licence_of_each() -> None:
    locked = json.loads((TOOLS / "package-lock.json").read_text("utf-8"))["packages"]
    head = (STATIC / "codemirror.js").read_text("utf-8").partition("*/")[0]
    licences = (STATIC / "codemirror.LICENSE.txt").read_text("utf-8")
    bundled = re.findall(r"^ \* (\S+) (\S+) \((\S+)\)$", head, re.MULTILINE)
    assert len(bundled) >= 10
    for name, version, licence in bundled:
        assert locked[f"node_modules/{name}"]["version"] == version
        assert locked[f"node_modules/{name}"]["integrity"].startswith("sha512-")
        assert licence == "MIT"
        assert name in licences
