"""`xscl try`, `why`, `explain`, `witness`: questions about queries and documents.

Nothing is registered and nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import typer

from xscl.cli.argument_files import query_text
from xscl.cli.completion import subscriptions_like
from xscl.cli.feed_rows import Row
from xscl.cli.options import Call, Place, Verbose, option
from xscl.cli.output import answer, warn
from xscl.cli.progress import Quiet, working
from xscl.cli.query_options import refuse_bare_duration, warn_of_unseen_names
from xscl.cli.run import MatchFormat, writer
from xscl.cli.service import Service, opened
from xscl.client.answers import Witness
from xscl.documents.results import XSCL
from xscl.drawing.queries import draw_query
from xscl.errors import XsclError
from xscl.inspection.diagnosis import Diagnosis
from xscl.inspection.replay import late_note
from xscl.inspection.why import Why
from xscl.language.windows import refuse_bare_windows
from xscl.planning.compile import compile_query

Subject: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="NAME|QUERY|@FILE",
        help="A subscription, or a query.",
        autocompletion=subscriptions_like,
    ),
]


class Resolved(NamedTuple):
    """The text of a query, and the subscription if the text is its name."""

    text: str
    subscription: Row | None

    @property
    def named(self) -> bool:
        """True if the text is the name of a subscription."""
        return self.subscription is not None


def try_query(
    place: Place,
    query: Subject,
    since: Annotated[
        str | None, option("--since", "How far back to begin: 7d, '12 h'.", "DURATION")
    ] = None,
    form: Annotated[MatchFormat, option("--format", "How to write matches.")] = MatchFormat.TEXT,
    as_json: Annotated[bool, option("--json", "The same as --format jsonl.")] = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Print what a query would have matched on the kept documents, without registering it.

    Kept are all documents of the last 30 days (serve --history), and what
    subscriptions need. --since counts back from the latest document. Without
    any match the reasons are shown: see 'xscl why'.

    \b
    Example:
      xscl try 'feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]' --since 7d
    """
    text = query_text(query)
    refuse_bare_duration(since)
    write = writer(MatchFormat.JSONL if as_json else form, verbose=verbose)
    with opened("try", place) as service:
        named = _has_name(service, text)
        if not named:
            warn_of_unseen_names(service, text)
        with working("trying"):
            outcome = service.try_query(text, since, named=named)
        for match in outcome.matches:
            write(match)
        if outcome.diagnosis is not None:
            lines = outcome.diagnosis.lines(_waiting(service, outcome.diagnosis))
            warn("\n".join(("no match among the kept documents", *lines)))
        if late := late_note(outcome.late, outcome.lateness):
            warn(late, "'xscl stream set' sets the lateness before the first subscription")


def why(
    call: Call,
    query: Subject,
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[DOC...]", help="A name or an id for each block; - for none."),
    ] = None,
) -> None:
    """Show why a query matches some documents, or why not: all that it asks of them.

    The documents are those of the query's blocks, in their order, as
    orders/17, or 17 if no other one has that id. Each line is a condition:
    the pattern of a block, a comparison, order, window, registration; where
    it fails, with what comes nearest.

    Without documents it shows why the query has no match: how many of the
    newest documents match each block, the part that none passes with the
    nearest names, and the documents that come closest to a match.

    \b
    Example:
      xscl why echo d1 d2
    """
    text = query_text(query)
    found: Why | Diagnosis
    with opened("why", call) as service:
        named = _has_name(service, text)
        if documents:
            found = service.why(text, documents, named=named)
            lines = found.lines()
        else:
            found = service.diagnose(text, None, named=named)
            lines = chain([found.heading], found.lines(_waiting(service, found)))
    answer(found.as_dict(), lines, as_json=call.as_json)


def _waiting(service: Service, found: Diagnosis) -> int:
    """Return how many documents wait, if a stream of a query has none."""
    return service.waiting() if found.lacks_documents else 0


def explain(
    call: Call,
    query: Subject,
    show_sql: Annotated[bool, option("--sql", "Show the template's SQL.")] = False,
    svg: Annotated[
        Path | None, option("--svg", "Draw the join graph to this file.", "FILE")
    ] = None,
) -> None:
    """Show how a query is evaluated: join graph, template, sharing, windows, state kept.

    \b
    Example:
      xscl explain echo --sql
    """
    text = query_text(query)
    with opened("explain", call, missing="memory") as service:
        resolved = _resolved(service, text)
        explanation = service.explain(text, named=resolved.named, sql=show_sql)
    if svg is not None:
        _draw(resolved, svg)
    value = {"query": text, "sql" if show_sql else "explanation": explanation}
    answer(value, [explanation], as_json=call.as_json)


def _draw(resolved: Resolved, file: Path) -> None:
    """Write the join graph of a query to a file."""
    text, subscription = resolved
    if subscription is not None and subscription["language"] != XSCL:
        raise XsclError("only queries in XSCL are drawn", hint="leave out --svg")
    query = text if subscription is None else subscription["query"]
    file.write_text(draw_query(compile_query(query)).svg(alone=True), "utf-8")


def _has_name(service: Service, text: str) -> bool:
    """Return whether a text names a subscription, or a removed one whose matches are kept."""
    if any(one["name"] == text for one in service.removed()):
        return True
    return _resolved(service, text).named


def _resolved(service: Service, text: str) -> Resolved:
    """Return the subscription that a text names, or the text as a query.

    Warns of a single word that is neither a subscription nor a stream.  Raises QueryError for a
    window without a unit.
    """
    named = service.subscription(text)
    if named is None:
        if "{" in text:
            refuse_bare_windows(text)
        word = text.strip()
        if re.fullmatch(r"[\w.-]+", word) and word not in service.streams():
            warn(f"warning: there is no subscription of that name: {word!r} is taken as a query")
    return Resolved(text, named)


def witness(
    call: Call,
    document: Annotated[
        str, typer.Argument(metavar="DOC", help="The name or the id of a document.")
    ],
) -> None:
    """Show a document as a tree with its node ids and which variables bind where.

    \b
    Example:
      xscl witness d1
    """
    with opened("witness", call) as service:
        found = service.witness(document)
    shown = {"nodes": {"__all__": {"depth", "name"}}}
    answer(found.model_dump(exclude=shown), _tree(found), as_json=call.as_json)


def _tree(found: Witness) -> Iterator[str]:
    """Yield the nodes of a document as readable lines, the variables of a node below it."""
    width = len(str(found.nodes[-1].node))
    for node in found.nodes:
        text = " ".join(node.text.split())
        yield f"{node.node:>{width}}  {'  ' * node.depth}{node.name}  {text}".rstrip()
        for variable in node.variables:
            yield f"{' ' * (width + 4 + 2 * node.depth)}<- {variable}"
