"""How is a change shown first and then done exactly as shown?

A preview answers with a token: claims under an HMAC of a key that lives in the home, so a token survives a restart.
It is bound to the exact arguments, and to the plan, which also holds the state that it was made of. A token redeemed
again with the same arguments gives the first answer again, whatever the state is by then.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from memoryd.digest import canonical_json, sha256_hex
from memoryd.errors import HomeError, TokenInvalid
from memoryd.files import Files
from memoryd.operations.home import Home

LIFETIME_SECONDS = 3600
_LABEL = b"memoryd confirm token v1"


def seal(home: Home, plan: dict[str, Any], arguments: dict[str, Any]) -> str:
    """A token for this plan (the arguments and the state they were applied to), valid for an hour.

    A change that was undone within the second gets another one: the first would only bring its answer again.
    """
    expires = int(home.clock()) + LIFETIME_SECONDS
    while True:
        claims = canonical_json({"plan": _hash(plan), "arguments": _hash(arguments), "expires": expires})
        token = f"{_text(claims)}.{_text(_mac(home, claims))}"
        if home.state.answers.recall(sha256_hex(token.encode())) is None:
            return token
        expires += 1


def first_answer(home: Home, token: str) -> dict[str, Any] | None:
    """The answer this token was redeemed for before, if it was. Raises TokenInvalid for a token of another home.

    The caller checks arguments and scopes before it hands the answer on.
    """
    _claims(home, token)
    return home.state.answers.recall(sha256_hex(token.encode()))


def check_arguments(home: Home, token: str, arguments: dict[str, Any]) -> None:
    """Check that the token was made for exactly these arguments, however old it is. Raises TokenInvalid."""
    if not hmac.compare_digest(_claims(home, token).get("arguments", ""), _hash(arguments)):
        raise TokenInvalid("This confirm token belongs to another plan: the arguments differ.")


def redeem(home: Home, token: str, plan: dict[str, Any]) -> None:
    """Check that the token is for exactly this plan and not too old. Raises TokenInvalid."""
    claims = _claims(home, token)
    if claims["expires"] < home.clock():
        raise TokenInvalid("This confirm token is too old.")
    if not hmac.compare_digest(claims["plan"], _hash(plan)):
        raise TokenInvalid("This confirm token belongs to another plan: the arguments or the memory changed since.")


def keep_answer(home: Home, token: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Remember what a token was redeemed for; the answer that stands."""
    return home.state.answers.remember(sha256_hex(token.encode()), answer, home.clock())


def _hash(value: dict[str, Any]) -> str:
    return sha256_hex(canonical_json(value))


def _claims(home: Home, token: str) -> dict[str, Any]:
    first, _, second = token.partition(".")
    try:
        claims, mac = _bytes(first), _bytes(second)
    except ValueError as error:
        raise TokenInvalid("This is not a confirm token.") from error
    if not hmac.compare_digest(mac, _mac(home, claims)):
        raise TokenInvalid("This is not a confirm token of this home.")
    data: dict[str, Any] = json.loads(claims)
    return data


def _mac(home: Home, claims: bytes) -> bytes:
    key = hmac.new(seal_key(home.root, home.files), _LABEL, sha256).digest()
    return hmac.new(key, claims, sha256).digest()


def seal_key(root: Path, files: Files) -> bytes:
    """The home's persistent secret (32 random bytes, mode 0600), made at first use."""
    path = root / "seal.key"
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = os.urandom(32)
        files.replace(path, key, owner="seal")
    if len(key) != 32:
        raise HomeError(f"{path} is damaged: it must hold 32 bytes.", next_step="Remove it; open plans are void then.")
    return key


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
