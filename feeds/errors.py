"""The errors of reading feeds and documents.

    FeedError
    ├── MalformedDocument    the bytes are not XML, or more XML than we take
    ├── NotAFeed             readable, but neither RSS nor Atom nor JSON Feed
    └── NotAList             readable, but neither OPML nor a list of addresses

What a fetch or a file brings that is of no use is an expected outcome and a
value there (`fetch.Failed`, `files.Rejected`), not an exception.
"""

from __future__ import annotations


class FeedError(Exception):
    """The root of this package's errors; `reason_code` is stable, the message is for people.

    `args` stay the arguments of the constructor, which `BaseException` calls again to unpickle an
    error: worker processes read segments and parse documents, too.  So arguments are positional.
    """

    def __init__(self, reason_code: str, message: str) -> None:
        self.reason_code = reason_code
        self.message = message

    def __str__(self) -> str:
        return self.message


class MalformedDocument(FeedError):
    """The bytes are not an XML document within the limits.

    `reason_code` is one of `xml_syntax`, `xml_entities`, `xml_depth`,
    `xml_size`, `xml_elements`, `xml_chars`, `xml_encoding`; for a JSON feed it
    is `json_syntax`.  `line` and `column` count from 1; 0 means unknown.
    """

    def __init__(self, reason_code: str, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason_code, message)
        self.line = line
        self.column = column

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return place + self.message


class NotAFeed(FeedError):
    """The bytes can be read, but no feed format is recognised in them."""

    def __init__(self, message: str) -> None:
        super().__init__("not_a_feed", message)


class NotAList(FeedError):
    """The bytes can be read, but they are no list of feeds."""

    def __init__(self, message: str) -> None:
        super().__init__("not_a_list", message)
