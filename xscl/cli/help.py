"""`xscl help`: the reference of the languages, on the terminal."""

from __future__ import annotations

import sys

from xscl.cli.commands import COMMANDS
from xscl.cli.options import argument
from xscl.cli.output import UsageError, echo, echo_lines
from xscl.errors import near_miss
from xscl.language.topics import PAGES, Topic, found, topics

_WIDEST = 120
"""The most columns of formatted text: longer lines are hard to read."""


def help_(
    topic: str | None = argument("A language, or a heading of its page.", "TOPIC"),
) -> None:
    """Show the reference of the query languages: a page, or one section of it.

    Without TOPIC it lists the topics. For a command, see 'xscl COMMAND --help'.

    \b
    Example:
      xscl help xscl
      xscl help windows
    """
    if topic is None:
        echo_lines(_listed())
        return
    sections = found(topic)
    if not sections:
        near = near_miss(topic, [one.name for one in topics()], quoted=True)
        hint = near or "'xscl help' lists the topics"
        if topic in COMMANDS:
            hint = f"'xscl {topic} --help' shows the command"
        raise UsageError(f"there is no topic {topic!r}", hint=hint)
    for section in sections:
        _show(section)


def _listed() -> list[str]:
    """Return a line for each page, with the names of its sections."""
    width = max(map(len, PAGES))
    lines = []
    for page in PAGES:
        names = [topic.name for topic in topics() if topic.page == page and not topic.is_page]
        lines.append(f"{page:<{width}}  {', '.join(names)}")
    return lines


def _show(topic: Topic) -> None:
    """Print a topic: formatted on a terminal, else as Markdown."""
    text = topic.text if topic.is_page else topic.text.replace("## ", f"## {topic.page}: ", 1)
    if not sys.stdout.isatty():
        echo(text.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(Console().width, _WIDEST)).print(Markdown(text))
