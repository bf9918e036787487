"""The project's own files: what the wheel holds, what the locks pin, what no file may say."""

import ast
import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.project import LEAN, PACKAGES, ROOT, project_files, python

LOCKS = ("requirements", "build-requirements", "publish-requirements")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
# Where a checkout or a home happens to lie on one machine.
MACHINE_PATH = re.compile(
    rb"(?<![\w/*.])/(?:home/[\w.-]+/|Users/[\w.-]+/|root/\.\w|work/(?:main|shared)\b)"
)


def requirements(path: Path) -> list[str]:
    """The lines of a requirements file that name a package."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return [line for line in lines if line and not line.startswith(("#", "--"))]


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> set[str]:
    """The names of the files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_holds_every_file_of_the_packages(wheel_names: set[str]) -> None:
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in project_files(ROOT / package)
    }
    assert {f"{package}/py.typed" for package in PACKAGES} <= ours
    assert "xscl/language/xscl.lark" in ours
    assert ours - wheel_names == set()


def test_wheel_holds_nothing_else(wheel_names: set[str]) -> None:
    assert [
        name for name in wheel_names if name.endswith(".pyc") or "test" in Path(name).parts
    ] == []
    folders = {name.split("/")[0] for name in wheel_names}
    assert folders == {*PACKAGES, f"xscl-{PYPROJECT['project']['version']}.dist-info"}


def test_no_file_names_a_path_of_one_machine() -> None:
    here = re.escape(str(ROOT).encode())
    found = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in project_files()
        for match in re.finditer(MACHINE_PATH.pattern + b"|" + here, path.read_bytes())
    ]
    assert found == []


@pytest.mark.parametrize("path", ["home/ann/x", "Users/ann/x", "root/.cache", "work/main"])
def test_a_machine_path_is_seen_and_a_step_of_a_query_is_not(path: str) -> None:
    assert MACHINE_PATH.search(f"see /{path}".encode())
    assert not MACHINE_PATH.search(f"S//{path}".encode())


def test_every_test_folder_is_a_package() -> None:
    folders = {path.parent for path in project_files(ROOT / "tests") if path.suffix == ".py"}
    assert [f for f in folders if not (f / "__init__.py").exists()] == []


def test_every_file_that_states_the_release_states_the_same() -> None:
    release = PYPROJECT["project"]["version"]
    title = rf"^## {re.escape(release)} \((\d{{4}}-\d\d-\d\d)\)$"
    (day,) = re.findall(title, (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {release}\ndate-released: {day}\n" in citation
    minor = release.rpartition(".")[0]
    assert f"minor version, now {minor}." in (ROOT / "SECURITY.md").read_text("utf-8")
    stated = re.compile(r"\bxscl[-:](\d+\.\d+\.\d+)\b")
    found = {
        path.relative_to(ROOT).as_posix(): set(stated.findall(path.read_text("utf-8")))
        for path in project_files()
        if path.suffix in {".md", ".yaml"} or path.name == "Dockerfile"
    }
    named = {path: versions for path, versions in found.items() if versions}
    assert set(named) >= {"deploy/compose.yaml"}
    assert {path: versions for path, versions in named.items() if versions != {release}} == {}


def test_requirements_are_those_of_pyproject() -> None:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    wanted = (extras[name] for name in ("service", "spark", "test"))
    declared = [*project["dependencies"], *(one for extra in wanted for one in extra)]
    assert sorted(requirements(ROOT / "requirements.in")) == sorted(declared)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_pins_every_requirement_with_hashes(name: str) -> None:
    wanted = {re.split(r"[<>=]", line)[0] for line in requirements(ROOT / f"{name}.in")}
    lock = (ROOT / f"{name}.lock").read_text()
    pins = re.findall(r"^([\w.-]+)==\S+.*\\\n    --hash=sha256:[0-9a-f]{64}", lock, re.MULTILINE)
    assert len(pins) == len(requirements(ROOT / f"{name}.lock"))
    assert wanted <= set(pins)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_names_no_address(name: str) -> None:
    lock = (ROOT / f"{name}.lock").read_text()
    assert re.findall(r".*(?:://|--index|--extra|--find-links| @ ).*", lock) == []


UNLOADED = {
    "cep_core": "import sys, cep_core; print({'duckdb', 'pyspark', 'lxml'} & {*sys.modules})",
    # The fork server would take 169 MB with them, and a second more to start; it takes 96 MB.
    "the children of SQL": "import sys, xscl.service.sql.fork_server, xscl.service.sql.child\n"
    "print({'xscl.engine', 'cep_core', 'pydantic', 'httpx'} & {*sys.modules})",
    "commands that are not of Spark": f"{LEAN}from xscl.cli.extras import require\n"
    "import xscl.cli.serve, pyarrow\n"
    "print({'pandas'} & {*sys.modules})\n"
    "require('spark', 'this')\n"
    "assert len(pyarrow.table({'a': [1]}).to_pandas()) == 1",
}
"""Programs that print which modules they have loaded of those that they do not need."""


@pytest.mark.parametrize("name", UNLOADED)
def test_what_is_not_needed_is_not_loaded(name: str) -> None:
    done = python("-c", UNLOADED[name])
    assert done.stdout == "set()\n", done.stderr


def statements(path: Path) -> Iterator[str]:
    """Yield the string constants of a module; formatted ones with {} for each value."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))


def test_nothing_is_joined_by_row_numbers() -> None:
    """DuckDB 2.0.0 reads wrong rows then, beside those of the transaction (decisions/store.md)."""
    joined = re.compile(r"\browid\s+(NOT\s+)?IN\b|\browid\s*=|\.rowid\b", re.I)
    found = [
        f"{path.name}: {text}"
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "rowid" in path.read_text().lower()  # to parse all of them takes seconds
        for text in statements(path)
        if joined.search(text)
    ]
    assert found == []
