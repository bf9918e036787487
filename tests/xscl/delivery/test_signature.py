"""The Standard Webhooks scheme: its published vector, and what a receiver has to refuse."""

from __future__ import annotations

import pytest

from tests.xscl.delivery.receiver import NotSigned, verify
from xscl.delivery.channels.signature import headers, is_secret, new_secret, sign

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}'


def test_w13_published_vector() -> None:
    assert sign(SECRET, ID, AT, BODY) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_w13_receiver_takes_what_was_signed() -> None:
    verify(SECRET, headers([SECRET], ID, AT, BODY), BODY, AT + 299)


@pytest.mark.parametrize(
    ("changed", "body", "now"),
    [
        ({}, b'{"test": 2432232315}', AT),
        ({}, BODY, AT + 600),
        ({"webhook-id": "msg_other"}, BODY, AT),
        ({"webhook-signature": "v1,g0hM9SsE"}, BODY, AT),
    ],
)
def test_w13_receiver_refuses_what_was_not(
    changed: dict[str, str], body: bytes, now: float
) -> None:
    with pytest.raises(NotSigned):
        verify(SECRET, headers([SECRET], ID, AT, BODY) | changed, body, now)


def test_w13_both_secrets_sign_during_rotation() -> None:
    new = new_secret()
    signed = headers([new, SECRET], ID, AT, BODY)
    assert len(signed["webhook-signature"].split()) == 2
    verify(new, signed, BODY, AT)
    verify(SECRET, signed, BODY, AT)
    with pytest.raises(NotSigned, match="no signature is right"):
        verify(new_secret(), signed, BODY, AT)


def test_secrets_are_as_the_scheme_wants_them() -> None:
    made = new_secret()
    assert is_secret(made)
    assert is_secret(SECRET)
    assert made != new_secret()
    assert not is_secret("whsec_c2hvcnQ=")
    assert not is_secret("whsec_not base64 at all!")
    assert not is_secret(SECRET.removeprefix("whsec_"))
