"""A newcomer's tasks, by the words of README and documentation only.

Each command and query stands on a page.  The reader puts his own files, names and addresses in
place of those of the page, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from tests.documentation.blocks import blocks
from tests.documentation.session import Session
from tests.project import ROOT
from tests.xscl.delivery.receiver import Receiver, eventually, receiving

pytestmark = pytest.mark.slow

ITEM = (
    "<item><title>{title}</title><link>{link}</link><pubDate>{date}</pubDate>"
    "<category>Line 5</category></item>"
)
FEED = '<rss version="2.0"><channel><title>{name}</title><link>{home}</link>{items}</channel></rss>'
HEADLINE = "Harbour bridge closed after storm, ferries stop"
NEARLY = "Ferries stop, harbour bridge closed after the storm"
SILENT = "Trams of line 5 are interrupted"


def said(page: str, begins: str) -> str:
    """Return the first command of a page that begins so; the whole line, if that ends in a dot."""
    text = (ROOT / page).read_text("utf-8").replace("\\\n", "")
    wanted = re.escape(begins.removesuffix(".")) + ("" if begins.endswith(".") else "[^`\n]*")
    found = re.search(rf"^(?:\$ | *)({wanted})$|`({wanted})`", text, re.MULTILINE)
    assert found is not None, f"{page} does not say {begins!r}"
    return found[1] or found[2]


def query(page: str, heading: str) -> str:
    """Return the first query below a heading of a page."""
    text = (ROOT / page).read_text("utf-8")
    line = text[: text.index(f"## {heading}\n")].count("\n")
    return next(b.text for b in blocks(ROOT / page) if b.language == "xscl" and b.line > line)


class Newcomer(Session):
    """A reader in a directory, who has feeds of his own."""

    def does(self, page: str, begins: str, *changes: tuple[str, str]) -> str:
        """Do what a page says, with other names; return what is printed."""
        line = said(page, begins)
        for old, new in changes:
            assert old in line, f"{old!r} is not in {line!r}"
            line = line.replace(old, new)
        return self._command(self.here(line), "")

    def has(self, page: str, *titles: str) -> None:
        """Save files of a page."""
        for block in blocks(ROOT / page):
            if block.title in titles:
                (self.folder / block.title).write_text(block.text)

    def publishes(self, name: str, *titles: str, hours: float = 1) -> None:
        """Publish a feed, whose items are some hours old."""
        date = format_datetime(datetime.now(UTC) - timedelta(hours=hours))
        home = f"http://{name}.example/"
        items = "".join(
            ITEM.format(title=title, link=f"{home}{number}", date=date)
            for number, title in enumerate(titles)
        )
        feed = FEED.format(name=f"The {name}", home=home, items=items)
        (self.folder / f"{name}.rss").write_text(feed)

    def subscribes(self, name: str, page: str, heading: str, *changes: tuple[str, str]) -> str:
        """Subscribe to a query of a page."""
        text = query(page, heading)
        (self.folder / f"{name}.xscl").write_text(text)
        return self.does(
            "docs/tutorial.md", "xscl subscribe disagree", ("disagree", name), *changes
        )


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Newcomer]:
    monkeypatch.chdir(tmp_path)
    found = Newcomer(tmp_path)
    with found.servers:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


def test_ten_feeds_from_the_first_to_a_mail(reader: Newcomer, receiver: Receiver) -> None:
    feeds = "docs/how-to/feeds.md"
    papers = [f"paper{number}" for number in range(8)]
    for number, name in enumerate(papers):
        reader.publishes(name, HEADLINE.upper() if number % 2 else HEADLINE)
    reader.publishes("gazette", NEARLY)
    reader.publishes("status", SILENT, hours=10)

    reader.does("docs/how-to/mail.md", "export XSCL_SMTP=")
    reader.does(feeds, "python3 -m http.server 8080")
    hook = f"127.0.0.1:{receiver.port}"
    allowed = "--allow-address 127.0.0.1:8080"
    reader.does(feeds, "xscl serve --allow-address", (allowed, f"{allowed} --allow-address {hook}"))
    for name in (*papers, "gazette", "status"):
        reader.does(
            *(feeds, "xscl feeds add http", ("news.rss", f"{name}.rss")),
            ("--stream news", f"--stream {name}"),
        )
    listed = reader.does(feeds, "xscl feeds list")
    assert listed.count("The ") == 10

    # The same story is one, of eight sources; one headline is nearly the same.
    reader.subscribes("same", "docs/gallery.md", "The same story in two feeds")
    reader.does("docs/how-to/mail.md", "xscl edit news --stories", ("news", "same"))
    assert "8 documents" in reader.does("docs/deliveries.md", "xscl stories news", ("news", "same"))
    reader.subscribes("near", "docs/gallery.md", "Nearly the same headline")
    assert NEARLY in reader.does("README.md", "xscl matches same-title", ("same-title", "near"))
    # Silence: no end of the interruption within six hours.
    reader.subscribes("silence", "docs/gallery.md", "Silence after an announcement")
    silent: Callable[[], bool] = lambda: (  # noqa: E731
        SILENT in reader.does("README.md", "xscl matches same-title", ("same-title", "silence"))
    )
    eventually(silent)

    # A ninth and a tenth source add to the story: one mail, two messages of the webhook.
    mail = ("/news/", "/same/"), (', "every": "1 d"', "")
    reader.does("docs/how-to/mail.md", "curl -X POST", *mail)
    hooked = ("/billed/", "/same/"), ("127.0.0.1:8080/other", f"{hook}/hook")
    reader.does("docs/how-to/webhooks.md", "curl -X POST", *hooked)
    post = reader.post
    assert post is not None
    for number, name in enumerate(("gazette", "status"), start=1):
        kept = NEARLY if name == "gazette" else SILENT
        reader.publishes(name, kept, HEADLINE)
        reader.does(feeds, "xscl feeds refresh.")
        eventually(lambda: len(receiver.at("/hook")) == number)  # noqa: B023
        assert receiver.at("/hook")[-1].data["documents"] == 8 + number
    eventually(lambda: len(post.mails) == 1)
    (_, sent), *_ = post.mails
    assert HEADLINE.lower() in str(sent["Subject"]).lower()

    # Edit, pause, why not, export.
    edited = reader.does("docs/reference/commands.md", "xscl edit echo", ("echo", "near"))
    assert "2" in edited
    reader.does("docs/reference/commands.md", "xscl pause echo", ("echo", "silence"))
    assert '"paused": true' in reader.does("docs/reference/commands.md", "xscl subscriptions")
    reader.does("docs/reference/commands.md", "xscl resume echo", ("echo", "silence"))
    why = reader.does("README.md", "xscl why same-title", ("same-title", "near"))
    assert "items" in why or "documents" in why
    backup = "docs/how-to/backup-and-restore.md"
    assert "10 feeds" in reader.does(backup, "xscl export registrations.json")
    assert len(post.mails) == 1


def test_orders_and_invoices_with_money_namespaces_and_absence(reader: Newcomer) -> None:
    tutorial, plain = "docs/tutorial.md", "docs/how-to/plain-xml.md"
    reader.has(tutorial, "orders.jsonl", "invoices.jsonl", "order-18.jsonl", "invoice-18.jsonl")
    reader.does(tutorial, "xscl push --stream orders orders.jsonl")
    reader.does(tutorial, "xscl push --stream invoices invoices.jsonl")
    reader.subscribes("disagree", tutorial, "A query")
    reader.does(tutorial, "xscl push --stream orders order-18.jsonl")
    reader.does(tutorial, "xscl push --stream invoices invoice-18.jsonl")
    found = reader.does(tutorial, "xscl matches disagree")
    assert found.count("<disagree") == 2  # 40 and 40.00 are one amount
    assert 'ordered="99" invoiced="100"' in found
    assert "holds" in reader.does(tutorial, "xscl why disagree order-18")

    reader.has(plain, "order.xml", "invoice.xml")
    reader.does(plain, "xscl subscribe invoiced")
    reader.does(plain, "xscl push --stream sales order.xml", ("2026-03-04", "2026-03-10"))
    shown = reader.does(plain, "xscl push --stream bills invoice.xml", ("2026-03-06", "2026-03-12"))
    assert "c = Ulm Ferries" in shown

    alone = query(plain, "Absences and time").replace("[./id->id]", "[./number->id]")
    (reader.folder / "alone.xscl").write_text(alone)
    reader.does(tutorial, "xscl subscribe disagree", ("disagree", "alone"))
    found = reader.does(tutorial, "xscl matches disagree", ("disagree", "alone"))
    assert "order-16" in found


def test_the_state_in_sql(reader: Newcomer) -> None:
    page = "docs/how-to/sql.md"
    reader.has(page, "orders.jsonl")
    reader.does(page, "xscl subscribe twice")
    reader.does(page, "xscl push --stream orders")
    bound = reader.does(page, 'xscl sql "SELECT docid, var1')
    assert bound.count("orders//order/number") == 4
    assert reader.does(page, 'xscl sql "SELECT docid, node, strVal').count(" 17") == 2
