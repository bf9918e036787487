"""`xscl edit`, `pause`, `resume`, `rename`, `tag`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from xscl.cli.argument_files import query_text
from xscl.cli.completion import subscriptions_like
from xscl.cli.options import Call, option
from xscl.cli.output import UsageError, answer
from xscl.cli.query_options import (
    LANGUAGES,
    known_language,
    refuse_bare_windows,
    warn_of_unseen_names,
)
from xscl.cli.service import opened
from xscl.client import Registered, Subscription, calls
from xscl.documents.results import XSCL

_Name = Annotated[
    str, typer.Argument(help="The name of the subscription.", autocompletion=subscriptions_like)
]


def edit(
    call: Call,
    name: _Name,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY|@FILE", help="The new query.")
    ] = None,
    language: Annotated[
        str | None, option("--language", "What it is written in.", "|".join(LANGUAGES))
    ] = None,
    updates: Annotated[
        bool | None, typer.Option("--updates/--no-updates", help="Also match new versions.")
    ] = None,
    stories: Annotated[
        bool | None,
        typer.Option("--stories/--no-stories", help="Group matches that share documents."),
    ] = None,
) -> None:
    """Give a subscription another query: its next version, under the same name.

    It sees what arrives from now on; if only SELECT changes, it joins that with
    what was there before. The matches of earlier versions stay, and webhooks,
    mails and feeds go on with the new one. With --stories alone the query stays,
    and the matches that are kept are grouped, too.

    \b
    Example:
      xscl edit echo 'feeds//item->a[./title->t] JOIN{t=u, 5 d} feeds//item->b[./title->u]'
    """
    if query is None and updates is None and stories is None and language is None:
        raise UsageError("there is nothing to change: give a query, or an option")
    text = None if query is None else query_text(query)
    written_in = None if language is None else known_language(language)
    with opened("edit", call) as service:
        before = service.existing(name)
        if text is not None and (language or before.language) == XSCL:
            refuse_bare_windows(text)
        changed = service.edit(name, text, updates=updates, stories=stories, language=written_in)
        if text is not None and changed.language == XSCL:
            warn_of_unseen_names(service, text)
    is_new = changed.version != before.version
    line = f"{name!r} is unchanged"
    if changed.stories != before.stories:
        line = f"{name!r} has {'' if changed.stories else 'no '}stories"
    if is_new:
        version = f"version {changed.version}"
        line = f"edited {name!r}: {version}, for documents that arrive from now on"
    _tell(changed, line, call)


def pause(call: Call, name: _Name) -> None:
    """Stop the matches and deliveries of a subscription until it is resumed.

    What arrives meanwhile completes no match, but takes part in the matches
    that later documents complete.

    \b
    Example:
      xscl pause echo
    """
    _change("pause", call, name, calls.pause, f"paused {name!r}")


def resume(call: Call, name: _Name) -> None:
    """Resume a paused subscription: it has matches and deliveries again, from now on.

    \b
    Example:
      xscl resume echo
    """
    _change("resume", call, name, calls.resume, f"resumed {name!r}")


def rename(
    call: Call, name: _Name, new: Annotated[str, typer.Argument(help="The new name.")]
) -> None:
    """Give a subscription another name; its matches keep their ids, and deliveries go on.

    \b
    Example:
      xscl rename echo echoes
    """
    _change("rename", call, name, calls.rename, f"renamed {name!r} to {new!r}", new)


def tag(
    call: Call,
    name: _Name,
    tags: Annotated[list[str], typer.Argument(metavar="TAG...", help="Words without blanks.")],
    remove: Annotated[bool, option("--remove", "Remove these tags.")] = False,
) -> None:
    """Add tags to a subscription, or remove them; lists are filtered by them.

    \b
    Example:
      xscl tag echo daily sea
    """
    with opened("tag", call) as service:
        kept = [one for one in service.existing(name).tags if one not in tags]
        changed = service.tag(name, kept if remove else [*kept, *tags])
    words = ", ".join(changed.tags) or "none"
    _tell(changed, f"tags of {name!r}: {words}", call)


def _change(
    command: str,
    call: Call,
    name: str,
    change: Callable[..., calls.Call[Registered]],
    line: str,
    *values: str,
) -> None:
    with opened(command, call) as service:
        service.existing(name)
        changed = service.send(change(name, *values))
    _tell(changed, line, call)


def _tell(changed: Subscription, line: str, call: Call) -> None:
    fields = {"name", "query", "language", "version", "paused", "tags"}
    answer(changed.model_dump(include=fields), [line], as_json=call.as_json)
