"""`xscl try`, `why`, `explain`, `witness`: questions about queries and documents.

Nothing is registered and nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeAlias

from xscl.cli.connection import opened, subscriptions_like
from xscl.cli.match_text import Format, Jsonl, MatchFormat, writer
from xscl.cli.options import (
    Call,
    Place,
    Timezone,
    Verbose,
    argument,
    not_standard,
    option,
    query_text,
)
from xscl.cli.output import answer, warn
from xscl.cli.progress import Quiet, working
from xscl.cli.query_options import refuse_bare_duration, refuse_bare_windows, warn_of_unseen_names
from xscl.cli.service import OpenedService
from xscl.client import Diagnosis, Subscription, Why
from xscl.client.answers import Witness
from xscl.documents.results import XSCL
from xscl.errors import XsclError
from xscl.inspection.reasons import diagnosis_heading, diagnosis_lines, late_note, why_lines
from xscl.time_format import SECOND

Subject: TypeAlias = Annotated[
    str,
    argument("A subscription, or a query.", "NAME|QUERY|@FILE", autocompletion=subscriptions_like),
]


def try_query(
    place: Place,
    query: Subject,
    since: str | None = option("How far back to begin: 7d, '12 h'.", "DURATION"),
    form: Format = MatchFormat.TEXT,
    as_json: Jsonl = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    timezone: Timezone = "local",
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
        is_name = _has_name(service, text)
        if not is_name:
            warn_of_unseen_names(service, text)
        with working("trying"):
            trial = service.trial(text, since, is_name=is_name)
        for match in trial.matches:
            write(match)
        if trial.diagnosis is not None:
            lines = _diagnosis_lines(service, trial.diagnosis)
            warn("\n".join(("no match among the kept documents", *lines)))
        if late := late_note(trial.late, round(trial.lateness * SECOND)):
            warn(late, "'xscl stream set' sets the lateness before the first subscription")


def why(
    call: Call,
    query: Subject,
    documents: list[str] | None = argument(
        "A name or an id for each block; - for none.", "[DOC...]"
    ),
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
        is_name = _has_name(service, text)
        if documents:
            found = service.why(text, *documents, is_name=is_name)
            lines = why_lines(found)
        else:
            found = service.diagnose(text, is_name=is_name)
            lines = chain([diagnosis_heading(found)], _diagnosis_lines(service, found))
    answer(found, lines, as_json=call.as_json)


def _diagnosis_lines(service: OpenedService, found: Diagnosis) -> Iterator[str]:
    """Return the lines of a diagnosis; if a stream has no documents, with the number that wait."""
    lacks_documents = any(not block.kept for block in found.blocks)
    return diagnosis_lines(found, service.waiting() if lacks_documents else 0)


def explain(
    call: Call,
    query: Subject,
    show_sql: bool = option("Show the template's SQL.", flags="--sql"),
    svg: Path | None = option("Draw the join graph to this file.", "FILE", callback=not_standard),
) -> None:
    """Show how a query is evaluated: join graph, template, sharing, windows, state kept.

    \b
    Example:
      xscl explain echo --sql
    """
    text = query_text(query)
    with opened("explain", call, missing="memory") as service:
        named = _subscription(service, text)
        explanation = service.explain(text, sql=show_sql, is_name=named is not None)
    if svg is not None:
        _draw(text, named, svg)
    value = {"query": text, "sql" if show_sql else "explanation": explanation}
    answer(value, [explanation], as_json=call.as_json)


def _draw(text: str, subscription: Subscription | None, file: Path) -> None:
    """Write the join graph of a query, or of a subscription, to a file."""
    if subscription is not None and subscription.language != XSCL:
        raise XsclError("only queries in XSCL are drawn", hint="leave out --svg")
    from xscl.drawing.queries import draw_query
    from xscl.planning.compile import compile_query

    query = text if subscription is None else subscription.query
    file.write_text(draw_query(compile_query(query)).svg(alone=True), "utf-8")


def _has_name(service: OpenedService, text: str) -> bool:
    """Return True if a text names a subscription, or a removed one whose matches are kept.

    Raises UnknownSubscription for a single word that is neither one nor a stream.
    """
    if any(one.name == text for one in service.removed()):
        return True
    return _subscription(service, text, must_exist=True) is not None


def _subscription(
    service: OpenedService, text: str, *, must_exist: bool = False
) -> Subscription | None:
    """Return the subscription that a text names, None for a query.

    A single word that is neither a subscription nor a stream causes a warning, or with `must_exist`
    UnknownSubscription.  Raises QueryError for a window without a unit.
    """
    named = service.find(text)
    if named is not None:
        return named
    if "{" in text:
        refuse_bare_windows(text)
    word = text.strip()
    if re.fullmatch(r"[\w.-]+", word) and all(stream.name != word for stream in service.streams()):
        if must_exist:
            service.existing(word)
        warn(f"warning: there is no subscription of that name: {word!r} is taken as a query")
    return None


def witness(
    call: Call,
    document: str = argument("The name or the id of a document.", "DOC"),
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
