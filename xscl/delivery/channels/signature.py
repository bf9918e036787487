"""Signatures of webhooks by the Standard Webhooks scheme, version 1.

What is signed is `id.timestamp.body` with HMAC-SHA256 under a secret of the endpoint, which is
written `whsec_` and base64.  For a day after a rotation the old and the new secret sign, and the
header `webhook-signature` has both signatures, separated by a blank.  A receiver compares in
constant time and rejects messages whose timestamp is more than five minutes off, against replay
attacks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

PREFIX = "whsec_"
_FEWEST, _MOST = 24, 64  # bytes of a secret, by the scheme


def new_secret() -> str:
    """Return a new random secret."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def is_secret(text: str) -> bool:
    """Return True if a text is a secret of the scheme: 24 to 64 bytes in base64."""
    try:
        return text.startswith(PREFIX) and _FEWEST <= len(_key(text)) <= _MOST
    except ValueError:
        return False


def headers(secrets: Sequence[str], id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the signature headers of a message for all secrets; `timestamp` in seconds."""
    return {
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(sign(secret, id, timestamp, body) for secret in secrets),
    }


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message: `v1,` and base64."""
    signed = hmac.new(_key(secret), f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("the secret is not base64") from error
