"""The README's commands run as they stand there, over files of their names."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path

import pytest

from tests.test_readme import README
from tests.xscl.commandline import called

BLOCKS = [
    text
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    if not language
]
SERVES = ["serve"]  # it ends only when it is told to: tests/xscl/server/test_serve.py
BARS = "time,close\n2024-05-06T00:00:00,100\n2024-05-06T00:01:00,101\n"


def commands(begin: str) -> list[list[str]]:
    """Return the words of the commands in the block that begins so, without the program's name."""
    (block,) = (one for one in BLOCKS if one.startswith(begin))
    return [shlex.split(line, comments=True)[1:] for line in block.splitlines()]


def answered(words: list[str]) -> str:
    done = called(*words)
    assert done.exit_code == 0, (words, done.output)
    return done.stdout


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_commands_run_one_after_the_other() -> None:
    Path("documents").mkdir()
    for name in ("one", "two"):
        Path(f"documents/{name}.xml").write_text("<a>the same</a>")
    Path("catalogue.xml").write_text("<book><title>Streams</title></book>")
    with zipfile.ZipFile("parcels.zip", "w") as archive:
        archive.writestr("parcel.xml", "<parcel/>")
    Path("subscriptions.csv").write_text("name,query\nparcels,books//parcel\n")
    Path("other.xscl").write_text(
        "news//item->a[./title->t] JOIN{t=u, 7 d} feeds//item->b[./title->u]"
    )
    listed = commands("xscl run -q")
    assert SERVES in listed
    for words in listed:
        if words == SERVES:
            continue
        if "DOC1" in words:
            kept = json.loads(answered(["sql", "SELECT id FROM documents", "--format", "json"]))
            ids = [one["id"] for one in kept]
            assert len(ids) == 2
            words = [{"DOC1": ids[0], "DOC2": ids[1]}.get(one, one) for one in words]
        said = answered(words)
        if words[0] == "run":
            assert "one.xml" in said
    assert "parcels" in answered(["subscriptions"])


def test_the_commands_of_the_event_languages_find_the_rise() -> None:
    Path("btc.csv").write_text(BARS)
    listed = commands("xscl run --language")
    assert len(listed) == 3
    for words in listed:
        assert "2024-05-06T00:01:00Z" in answered(words)


def test_the_settings_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (one for one in BLOCKS if one.startswith("data = "))
    Path("xscl.toml").write_text(block.replace("/var/lib/xscl", "here"))
    Path("operator.token").write_text("t")
    monkeypatch.delenv("XSCL_PORT", raising=False)
    answered(["subscribe", "named", "S//a"])
    assert Path("here/state.duckdb").exists()
    Path("xscl.toml").write_text(block.replace("history", "hystory"))
    assert called("subscriptions").exit_code == 2


def test_make_has_what_is_named() -> None:
    makefile = (Path(__file__).parents[1] / "Makefile").read_text("utf-8")
    named = [words[0] for words in commands("make demo")]
    assert named == ["demo", "test"]
    assert all(f"\n{one}: setup\n" in makefile for one in named)
