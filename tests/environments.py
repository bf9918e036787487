"""Virtual environments that have exactly the dependencies of some extras, made in a second.

An environment is an empty one with links to the installed distributions: the closure of the
requirements in a wheel's metadata.  Nothing is fetched.  A requirement that the metadata
lack is absent from the environment, as after `pip install`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, PathDistribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment; commands run in it without the variables of this process."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def xscl(self) -> Path:
        return self.path / "bin" / "xscl"

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.path / "lib" / version / "site-packages"

    @property
    def names(self) -> set[str]:
        """The names of the distributions that are installed."""
        found = distributions(path=[str(self.packages)])
        return {canonicalize_name(one.name) for one in found}

    def has(self, name: str) -> bool:
        """Return true if a distribution is installed."""
        return canonicalize_name(name) in self.names

    @contextmanager
    def running(self, *command: str | Path, cwd: Path) -> Iterator[subprocess.Popen[str]]:
        """Run a program of the environment until it ends, or the block does."""
        with subprocess.Popen(
            [str(one) for one in command],
            cwd=cwd,
            env=self.variables(cwd),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment to its end."""
        with self.running(*command, cwd=cwd) as process:
            out, errors = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, errors)

    def variables(self, home: Path) -> dict[str, str]:
        """The environment variables of a user who has set none but the usual ones."""
        return {
            "HOME": str(home),
            "PATH": f"{self.path / 'bin'}{os.pathsep}{os.defpath}",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "100",
        }


def empty(path: Path, *, with_pip: bool = False) -> Environment:
    """Make an environment without packages, or with pip alone."""
    venv.create(path, symlinks=True, with_pip=with_pip)
    return Environment(path)


def unpacked(wheel: Path, path: Path) -> Path:
    """Unpack a wheel into a folder, which is then like the `site-packages` of this wheel alone."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(path)
    return path


def linked(path: Path, wheel: Path, extras: Sequence[str]) -> Environment:
    """Make an environment with an unpacked wheel and the closure of what it requires."""
    made, ours = empty(path), _metadata(wheel)
    for entry in wheel.iterdir():
        (made.packages / entry.name).symlink_to(entry)
    for one in closure(ours, extras):
        _link(one, made.packages)
    _write_scripts(ours, made)
    return made


def linked_names(wheel: Path, extras: Sequence[str]) -> set[str]:
    """Return the names of all distributions in the environment of some extras."""
    ours = _metadata(wheel)
    return {canonicalize_name(one.name) for one in (ours, *closure(ours, extras))}


def _metadata(wheel: Path) -> PathDistribution:
    (metadata,) = wheel.glob("*.dist-info")
    return PathDistribution(metadata)


def closure(root: Distribution, extras: Iterable[str]) -> list[Distribution]:
    """Return the installed distributions that `root` with some extras requires, by name."""
    found: dict[str, Distribution] = {}
    waiting = _required(root, frozenset(extras))
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        found[name] = distribution(name)
        waiting += _required(found[name], wanted)
    return [found[name] for name in sorted(found)]


def _required(one: Distribution, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Return the names that a distribution requires here, each with its own extras."""
    requirements = map(Requirement, one.requires or ())
    return [
        (canonicalize_name(wanted.name), frozenset(wanted.extras))
        for wanted in requirements
        if wanted.marker is None
        or any(wanted.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
    ]


def _link(one: Distribution, packages: Path) -> None:
    """Link a distribution: whole folders that are its own, single files of those it shares."""
    for entry in sorted(_entries(one)):
        if entry in _shared():
            files = [file for file in one.files or () if file.parts[0] == entry]
            for file in files:
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(Path(str(one.locate_file(file))))
        else:
            (packages / entry).symlink_to(Path(str(one.locate_file(entry))))


def _entries(one: Distribution) -> set[str]:
    """Return the names in `site-packages` that a distribution has installed."""
    files = one.files or ()
    return {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}


@cache
def _shared() -> frozenset[str]:
    """Return the names in `site-packages` that several distributions have a part in."""
    owners = Counter(entry for one in distributions() for entry in _entries(one))
    return frozenset(entry for entry, count in owners.items() if count > 1)


def _write_scripts(ours: PathDistribution, made: Environment) -> None:
    """Write the console scripts as pip does."""
    scripts = ConfigParser()
    scripts.read_string(ours.read_text("entry_points.txt") or "")
    for name, place in scripts["console_scripts"].items():
        module, function = place.split(":")
        script = made.path / "bin" / name
        script.write_text(
            f"#!{made.python}\nimport sys\nfrom {module} import {function}\n"
            f"sys.exit({function}())\n"
        )
        script.chmod(0o755)
