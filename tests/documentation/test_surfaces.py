"""Declarations against their surfaces: commands, settings and stored relations.

Channels have `tests/xscl/service/test_deliveries.py`.  A declaration that lacks a surface fails
here with the name of the surface; what is declared twice fails, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.core import TyperOption
from typer.main import get_group

from cep_core import LANGUAGES
from tests.project import ROOT
from tests.xscl.commandline import called
from tools.site.commands import leaves
from xscl.cli import app
from xscl.cli.commands import COMMANDS
from xscl.cli.options import SETTINGS
from xscl.cli.settings import KEYS, config
from xscl.client.calls import Language
from xscl.documents.results import XSCL
from xscl.store.queries.owned_rows import OWNED
from xscl.store.queries.tables import RELATIONS, TABLES

REFERENCE = ROOT / "docs" / "reference"
PRODUCT = "cep_core", "feeds", "templates", "xscl"
VALUES: dict[type, tuple[str, object]] = {
    str: ('"a"', "a"),
    int: ("3", 3),
    list: ('["a"]', ["a"]),
    bool: ("true", True),
}


def options() -> dict[str, list[TyperOption]]:
    """Return the options of all commands by their longest flags."""
    found: dict[str, list[TyperOption]] = {}
    for _, command in leaves():
        for one in command.params:
            if isinstance(one, TyperOption):
                found.setdefault(max(one.opts, key=len).removeprefix("--"), []).append(one)
    return found


# -- Commands ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_everywhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command: Any = get_group(app).commands[name]
    assert command.summary == command.loaded.help.split("\n\n")[0].replace("\n", " "), "summary"
    monkeypatch.setenv("_XSCL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"xscl {name}")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert name in called(given="").stdout.split(), "completion"
    inner = getattr(command.loaded, "commands", {"": command.loaded})
    reference = (REFERENCE / "commands.md").read_text("utf-8")
    for sub, one in inner.items():
        whole = f"xscl {name} {sub}".rstrip()
        assert f"\n## {whole}\n" in reference, "the reference"
        assert f"\n  {whole}" in one.help, "an example"


# -- Settings ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_everywhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"XSCL_{name.replace('-', '_').upper()}"
    assert {one.envvar for one in options()[name]} >= {variable}, "an option, and its variable"
    key = "token-file" if name == "token" else name
    text, value = VALUES[KEYS[key].kind]
    (tmp_path / "xscl.toml").write_text(f"{key} = {text}")
    monkeypatch.chdir(tmp_path)
    read = config(["serve"])[key]
    assert read == (str(tmp_path / "a") if KEYS[key].is_path else value), "the file"
    page = (REFERENCE / "settings.md").read_text("utf-8")
    assert f"\n| `{key}` | " in page, "the reference of the file"
    assert f"\n| `{variable}` | " in page, "the reference of the environment"


def test_a_variable_is_declared_as_a_setting() -> None:
    undeclared = {
        name for name, found in options().items() if any(one.envvar for one in found)
    } - SETTINGS.keys()
    assert undeclared == set()


def test_a_variable_that_is_read_is_in_the_reference() -> None:
    """Also one that no option has; `XSCL_FAULT` is for the tests of the product alone."""
    sources = [path.read_text("utf-8") for name in PRODUCT for path in (ROOT / name).rglob("*.py")]
    read = {name for text in sources for name in re.findall(r"[\"']_?(XSCL_[A-Z_]+)[\"']", text)}
    page = (REFERENCE / "settings.md").read_text("utf-8")
    assert read >= {"XSCL_DATA", "XSCL_TOKEN_FILE"}
    assert {name for name in read if f"\n| `{name}` | " not in page} == {"XSCL_FAULT"}


# -- Event languages ------------------------------------------------------------------------


def test_the_api_has_all_languages() -> None:
    assert set(get_args(Language)) == {XSCL, *LANGUAGES}


# -- Stored relations ----------------------------------------------------------------------

STATE = {
    **dict.fromkeys(("meta", "progress", "ledger", "feed_spool", "chunk"), "of the store"),
    **dict.fromkeys(("variable", "pair", "template", "r_t", "core"), "of the plan"),
    **dict.fromkeys(("document", "text", "result"), "exported as documents and matches"),
    **dict.fromkeys(("binding", "times", "value"), "derived from documents"),
    **dict.fromkeys(("composite", "composite_stream"), "derived from matches"),
    "story_document": "of stories, by the documents of matches",
    **dict.fromkeys(("backfill", "late", "cut"), "of what subscriptions read"),
    **dict.fromkeys(("rejected", "dead_letter"), "reports, which end with what they are about"),
    **dict.fromkeys(("feed_item", "feed_lease", "feed_poll"), "of the fetcher, by feed"),
}
"""Relations that are not declared as users' (`OWNED`), with the reason."""
GROWN = {
    **{"star": "of matches", "story": "of matches", "retired": "of earlier versions"},
    "read_mark": "of items and matches",
}
"""Relations of users that `xscl export` leaves out, as it has no matches."""


def test_a_relation_is_declared_as_users_or_has_a_reason() -> None:
    assert not OWNED.keys() & STATE.keys()
    assert TABLES.keys() | RELATIONS.keys() == OWNED.keys() | STATE.keys()
    assert {name for name, one in OWNED.items() if not one.exported} == GROWN.keys()


@pytest.mark.parametrize("name", OWNED)
def test_a_relation_of_users_names_its_columns(name: str) -> None:
    owned, columns = OWNED[name], set(TABLES[name].names)
    assert bool(owned.number) != bool(owned.name), "whose its rows are, for the erasure"
    named = {*owned.shown, *owned.exported, owned.number or owned.name}
    assert named <= columns
    assert owned.shown, "what its owner sees in his data"
