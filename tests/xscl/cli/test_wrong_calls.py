"""Calls that are wrong, and calls that fail: exit code 2 and 1, a message, and no output."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.xscl.cli.test_ask import made as made  # a fixture
from tests.xscl.commandline import failed

JOB = "spark run --catalog c --sink parquet:out --checkpoint progress"
RUN = f"{JOB} --source parquet:in"
BARE = "'S//a->x JOIN{x=y, 5} S//b->y'"
NETWORKS = ("0.0.0.0/0", "::/0", "10.0.0.0/33", "proxy.example", "''")
HEADERS = ("X-Key", "'X Key: a'", "'X-Key: a\nb'", "X-Key:", "'Host: a'")
URLS = ("a.example", "ftp://a.example/", "http://", "http://[bad", "http://a:99999/")
CONTACTS = ("me", "https://", "'mailto:a b@c'", "'https://a/)\r\nX: y'")
ADDRESSES = ("127.0.0.1", "localhost:1:2", "[::1]", "'a b:80'")

WRONG = {
    "run a.xml": "there is no query to run",
    "run -q S//a->x": "there is nothing to read",
    "run -q @nix a.xml": "the query file nix cannot be read: No such file or directory",
    "run -q S//a->x --stream S a.xml": "--stream 'S' is not of the form NAME=PATH",
    "run -q S//a->x --at soon a.xml": "'soon' is no time",
    "run -q S//a->x --nix a.xml": "No such option: --nix",
    "push --stream s": "there is nothing to read",
    "push b.xml": "the documents need a stream\nhint: name it with --stream b.xml FILE;",
    "push a.xml --stream ''": "the documents need a stream",
    "push a.xml --stream s --at noon": "'noon' is no time",
    "subscribe r S//a[": "xscl: 'xscl help xscl' shows the language\n",
    "subscribe r S//a[ --language sase": "xscl: 'xscl help sase' shows the language\n",
    "subscribe r @none": "the query file none cannot be read",
    "try 'S//a->x JON S//b->y'": "xscl: line 1, column 9: ",
    f"try {BARE}": "the window 5 has no unit",
    "try pair --since 7": "xscl: --since 7 has no unit\nhint: write '7 d' or '7 h'\n",
    "try pair --since soon": "this is not a duration",
    "try @nix": "the query file nix cannot be read",
    f"why {BARE} d1 d2": "the window 5 has no unit",
    "sql 'SELECT 1' --output none/x": "none/x",
    "help widnows": "xscl: there is no topic 'widnows'\nhint: did you mean 'windows'?\n",
    "help subscribe": "\nhint: 'xscl subscribe --help' shows the command\n",
    "help zzzzzz": "\nhint: 'xscl help' lists the topics\n",
    "subscriptions --url 127.0.0.1:8425": "is no address of a service",
    "subscriptions --url http://a:b@127.0.0.1": "do not belong into the address",
    "subscriptions --url http://127.0.0.1:9 --token @nix": "the token in nix",
    "feeds add https://a.example/ --header @none": "none",
    "feeds add https://a.example/ --every 1s": "feeds are not polled more often than every 60 s",
    "feeds import none.opml": "none.opml",
    "feeds export none/x.opml": "none/x.opml",
    **{f"feeds add https://a.example/ --header {one}": "header" for one in HEADERS},
    **{f"feeds add {one}": "is no address of a feed" for one in (*URLS, "'http://a b/'")},
    **{f"feeds poll --contact {one}": "is not https://... nor mailto:..." for one in CONTACTS},
    **{f"feeds poll --allow-address {one}": "HOST:PORT" for one in ADDRESSES},
    **{f"serve --once --trusted-proxy {one}": "trusted-proxy" for one in NETWORKS},
    **{f"restore {one}": "takes either a FILE or --accept" for one in ("", "x --accept")},
    "restore --accept --force": "takes either a FILE or --accept",
    "spark subscribe one S//a[ --catalog c": "line 1",
    f"spark subscribe one {BARE} --catalog c": "has no unit",
    "spark subscribe one S//a->x --catalog c": "it joins nothing",
    f"{JOB} --source csv:in": "'csv:in' is none of parquet:PLACE, json",
    f"{JOB} --source kafka:broker": "'kafka:broker' has no topic",
    f"{RUN} --sink out": "--sink 'out' is none of parquet:PLACE",
    f"{RUN} --lateness 2": "--lateness 2 has no unit",
    f"{RUN} --trigger often": "often",
    f"{RUN} --order place": "place",
    f"{RUN} --conf spark.ui.enabled": "is not of the form NAME=VALUE",
    f"{RUN} --buckets 0": "--buckets",
}
WRONG |= dict.fromkeys(
    ("export -", "backup -", "feeds export -", "sql 'SELECT 1' -o -", "explain S//a --svg -"),
    "- is standard input, and no file to write\nhint: name a file",
)
FAILING = {
    "try pear": "hint: did you mean 'pair'?",
    "why pear d1 d2": "hint: did you mean 'pair'?",
    "why pair d1": "xscl: 1 document for a query of 2 blocks\nhint: name a document for",
    "why pair d1 d9": "xscl: there is no document 'd9'\nhint: xscl sql 'SELECT docid ",
    "feeds show none": "none",
    "sql 'SELECT x'": "x",
    "unsubscribe none": "there is no subscription named 'none'",
    "matches none": "there is no subscription named 'none'",
    "status --data none": "there is no data in ",
    "subscriptions --url http://127.0.0.1:9": "does not answer",
    "serve --host 192.0.2.1": "hint: --host names an address of this machine",
}


@pytest.mark.parametrize("line", [*WRONG, *FAILING])
def test_a_call_that_is_wrong_or_fails_says_why(
    line: str, folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XSCL_DATA", str(made))
    (folder / "a.xml").write_text("<book/>")
    code, message = (2, WRONG[line]) if line in WRONG else (1, FAILING[line])
    told = failed(code, *shlex.split(line))
    assert message in told
    assert "Traceback" not in told
    assert [one.name for one in folder.iterdir()] == ["a.xml"]
