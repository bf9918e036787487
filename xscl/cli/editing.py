"""`xscl edit`, `pause`, `resume`, `rename`, `tag`."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import typer

from xscl.cli.argument_files import query_text
from xscl.cli.completion import subscriptions_like
from xscl.cli.feed_rows import Row
from xscl.cli.options import Call, option
from xscl.cli.output import answer
from xscl.cli.service import existing, opened
from xscl.client.calls import Language
from xscl.documents.results import XSCL

_LANGUAGES = get_args(Language)

_Name = Annotated[
    str, typer.Argument(help="The name of the subscription.", autocompletion=subscriptions_like)
]


def edit(
    call: Call,
    name: _Name,
    query: Annotated[str, typer.Argument(metavar="QUERY|@FILE", help="The new query.")],
    language: Annotated[
        str | None, option("--language", "What it is written in.", "|".join(_LANGUAGES))
    ] = None,
    updates: Annotated[
        bool | None, typer.Option("--updates/--no-updates", help="Also match new versions.")
    ] = None,
) -> None:
    """Give a subscription another query: its next version, under the same name.

    It sees what arrives from now on; if only SELECT changes, it joins that with
    what was there before. The matches of earlier versions stay, and webhooks,
    mails and feeds go on with the new one.

    \b
    Example:
      xscl edit echo 'feeds//item->a[./title->t] JOIN{t=u, 5 d} feeds//item->b[./title->u]'
    """
    from xscl.cli.query_options import refuse_unknown_language, warn_of_unseen_names
    from xscl.language.windows import refuse_bare_windows

    text = query_text(query)
    refuse_unknown_language(language or XSCL, _LANGUAGES)
    with opened("edit", call) as service:
        before = existing(service, name)
        if (language or before["language"]) == XSCL:
            refuse_bare_windows(text)
        changed = service.edit(name, query=text, updates=updates, language=language)
        if changed["language"] == XSCL:
            warn_of_unseen_names(service, text)
    is_new = changed["version"] != before["version"]
    line = f"{name!r} is unchanged"
    if is_new:
        version = f"version {changed['version']}"
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
    _change("pause", call, name, f"paused {name!r}", paused=True)


def resume(call: Call, name: _Name) -> None:
    """Resume a paused subscription: it has matches and deliveries again, from now on.

    \b
    Example:
      xscl resume echo
    """
    _change("resume", call, name, f"resumed {name!r}", paused=False)


def rename(
    call: Call, name: _Name, new: Annotated[str, typer.Argument(help="The new name.")]
) -> None:
    """Give a subscription another name; its matches keep their ids, and deliveries go on.

    \b
    Example:
      xscl rename echo echoes
    """
    _change("rename", call, name, f"renamed {name!r} to {new!r}", rename=new)


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
    from xscl.service.tags import checked_tags

    given = checked_tags(tags)
    with opened("tag", call) as service:
        before = existing(service, name)["tags"]
        kept = [one for one in before if one not in given]
        wanted = kept if remove else [*kept, *given]
        changed = service.edit(name, tags=wanted)
    words = ", ".join(changed["tags"]) or "none"
    _tell(changed, f"tags of {name!r}: {words}", call)


def _change(command: str, call: Call, name: str, line: str, **change: Any) -> None:
    with opened(command, call) as service:
        existing(service, name)
        changed = service.edit(name, **change)
    _tell(changed, line, call)


def _tell(changed: Row, line: str, call: Call) -> None:
    fields = ("name", "query", "language", "version", "paused", "tags")
    answer({field: changed[field] for field in fields}, [line], as_json=call.as_json)
