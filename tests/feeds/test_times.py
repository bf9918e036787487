"""Dates as publishers write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.times import parse_time, rfc3339


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # RFC 822 and its damage
        ("Tue, 19 Mar 2013 10:00:00 GMT", "2013-03-19T10:00:00Z"),
        ("19 Mar 13 10:00 EST", "2013-03-19T15:00:00Z"),
        ("Tuesday, 19-Mar-13 10:00:00 +0100", "2013-03-19T09:00:00Z"),
        ("Tue, 19 March 2013 10:00:00 -0330", "2013-03-19T13:30:00Z"),
        ("Tue 19 Sept 2013, 10:00:00 PM UTC", "2013-09-19T22:00:00Z"),
        ("Tue, 19 Mar 2013 10:00:00 GMT+0200", "2013-03-19T08:00:00Z"),
        ("Tue, 19 Mar 2013 10:00:00 +0000 (UTC)", "2013-03-19T10:00:00Z"),
        ("Tue, 19 Mar 2013 10:00:00 XST", "2013-03-19T10:00:00Z"),
        ("Tue, 19 Mar 2013 24:00:00 GMT", "2013-03-20T00:00:00Z"),
        ("Sun, 1 Jan 70 00:00:00 GMT", "1970-01-01T00:00:00Z"),
        ("Thu, 31 Dec 69 00:00:00 GMT", "2069-12-31T00:00:00Z"),
        ("  \n Tue, 19 Mar 2013 10:00:00 GMT ", "2013-03-19T10:00:00Z"),
        ("Tue, 19 Mar 2013", "2013-03-19T00:00:00Z"),
        # asctime, American
        ("Tue Mar 19 10:00:00 2013", "2013-03-19T10:00:00Z"),
        ("Tue Mar 19 10:00:00 EST 2013", "2013-03-19T15:00:00Z"),
        ("March 19, 2013 12:05 am", "2013-03-19T00:05:00Z"),
        # RFC 3339, W3CDTF
        ("2013-03-19T10:00:00Z", "2013-03-19T10:00:00Z"),
        ("2013-03-19T10:00:00.5+05:30", "2013-03-19T04:30:00.500000Z"),
        ("2013-03-19T10:00:00.1234567Z", "2013-03-19T10:00:00.123456Z"),
        ("2013-03-19 10:00:00 -0400", "2013-03-19T14:00:00Z"),
        ("2013-03-19T10:00Z", "2013-03-19T10:00:00Z"),
        ("2013-03-19", "2013-03-19T00:00:00Z"),
        ("2013-03", "2013-03-01T00:00:00Z"),
        ("2013", "2013-01-01T00:00:00Z"),
        ("20130319T100000Z", "2013-03-19T10:00:00Z"),
        # zones of hours, and with a name
        ("2024-05-06 10:00:00+02", "2024-05-06T08:00:00Z"),
        ("2024-05-06T10:00:00.5-07", "2024-05-06T17:00:00.500000Z"),
        ("2024-05-06T10:00:00+02:00[Europe/Berlin]", "2024-05-06T08:00:00Z"),
        ("Mon, 6 May 2024 10:00:00 GMT+2", "2024-05-06T08:00:00Z"),
        ("2024-05-06T10:00:00+530", "2024-05-06T04:30:00Z"),
        # of programs
        ("Friday, December 22, 2017 - 3:09pm", "2017-12-22T15:09:00Z"),
        ("Friday, 22 December, 2017 - 15:09", "2017-12-22T15:09:00Z"),
        ("Fri, 2006/09/15 08:19:53 EDT", "2006-09-15T12:19:53Z"),
        ("2024-May-06 10:00", "2024-05-06T10:00:00Z"),
        ("20240506T24:00:00Z", "2024-05-07T00:00:00Z"),
        # names in other languages
        ("Do, 29 M\u00e4r 2018 00:00:00 +0200", "2018-03-28T22:00:00Z"),
        ("Dienstag, 31. Dezember 2024 um 15:09", "2024-12-31T15:09:00Z"),
        ("lun., 6 mai 2024 \u00e0 10h30", "2024-05-06T10:30:00Z"),
        ("mer. 29 ao\u00fbt 2018", "2018-08-29T00:00:00Z"),
        ("jeudi 4 juillet 2024 10:00:00 +0200", "2024-07-04T08:00:00Z"),
        ("lunes, 6 de mayo de 2024 10:00", "2024-05-06T10:00:00Z"),
        ("segunda-feira, 6 de mar\u00e7o de 2024", "2024-03-06T00:00:00Z"),
        ("gio, 4 lug 2024 10:00:00 +0200", "2024-07-04T08:00:00Z"),
        ("ma 6 mrt 2024 10:00", "2024-03-06T10:00:00Z"),
        ("\u041f\u0442, 06 \u043c\u0430\u044f 2024 10:00:00 +0300", "2024-05-06T07:00:00Z"),
        ("2004-j\u00falius-13T9:15-05:00", "2004-07-13T14:15:00Z"),
        ("2004\ub144 05\uc6d4 28\uc77c  01:31:15", "2004-05-28T01:31:15Z"),
        ("2004-05-25 \uc624\ud6c4 11:23:17", "2004-05-25T23:23:17Z"),
        ("2024\u5e745\u67086\u65e5(\u6708) 10:00", "2024-05-06T10:00:00Z"),
        # leap seconds
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("Sat, 31 Dec 2016 23:59:60 GMT", "2017-01-01T00:00:00Z"),
        # far away
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"),
        ("1900-01-01", "1900-01-01T00:00:00Z"),
    ],
)
def test_read(written: str, meant: str) -> None:
    time = parse_time(written)
    assert time is not None
    assert rfc3339(time) == meant


@pytest.mark.parametrize(
    "written",
    [
        None,
        "",
        "yesterday",
        "1518478934",
        "2013-02-30",
        "2013-13-01",
        "Tue, 32 Mar 2013 10:00:00 GMT",
        "Tue, 19 Xyz 2013 10:00:00 GMT",
        "2013-03-19T25:00:00Z",
        "2013-03-19T10:61:00Z",
        "2013-03-19T10:00:00+99:99",
        "0001-01-01T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "0000-00-00T00:00:00Z",
        "Mon, 01 Jan 0001 00:00:00 +1400",
        "Tue, 19 Mar 2013 10:00:00 GMT" * 10,
        "\u0662\u0660\u0661\u0663-03-19",
        # what may be either day or month, and names that differ between languages
        "10/03/2023",
        "10/03/2023 10:00:00",
        "22/12/2017",
        "06.05.2024 10:00",
        "6 listopada 2024",
        "Spring 2024",
        "2024-05-06 10:00 Europe/Berlin",
    ],
)
def test_no_time(written: str | None) -> None:
    assert parse_time(written) is None


MOMENTS = st.datetimes(datetime(1900, 1, 2), datetime(9999, 12, 30))


@given(MOMENTS)
def test_what_is_written_reads_back(moment: datetime) -> None:
    time = parse_time(moment.replace(tzinfo=UTC).isoformat())
    assert time is not None
    assert parse_time(rfc3339(time)) == time
    assert datetime.fromisoformat(rfc3339(time)) == moment.replace(tzinfo=UTC)


@given(st.text(max_size=60) | st.text("0123456789-:+TZ .,JanFebGMT", max_size=40))
def test_nothing_crashes(text: str) -> None:
    time = parse_time(text)
    assert time is None or len(rfc3339(time)) >= 20
