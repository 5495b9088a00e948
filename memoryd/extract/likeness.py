"""Does a value look like a credential that somebody uses, or like a placeholder, a name, a word?"""

from __future__ import annotations

import re

_STAND_INS = (
    *(
        "example",
        "sample",
        "placeholder",
        "changeme",
        "change-me",
        "change_me",
        "redacted",
        "dummy",
        "insert",
        "replace",
    ),
    *("your-", "your_", "yoursecret", "yourpass", "yourtoken", "yourkey", "mysecret", "mypass", "mytoken", "mykey"),
    *("my-secret", "my-pass", "my-token", "my-key", "my_secret", "my_pass", "my_token", "my_key", "fake", "mock"),
    *("xxxx", "***", "...", "\u2026", "12345678", "23456789", "abcdefgh", "foobar", "notreal", "not-real", "not_real"),
)
"""What people write where a credential would stand, in lower case."""
_TEMPLATE = re.compile(r"\A[$%]\w|\$[{(]|<[^>]*>|\{[^}]*\}|%[(]")
"""What programs put in there: variables and templates."""
_PLAIN = """
password passwd passphrase pass pwd secret secrets token tokens key apikey credential credentials user username
login admin root guest test testing default none null undefined true false todo tbd unset empty string value
hidden masked removed private public required optional
"""
_WORDS = frozenset(_PLAIN.split())
_SEGMENTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{6}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+\Z|[0-9A-F]+\Z")
_NAME = re.compile(r"[~./]*[A-Za-z]+[0-9]{0,3}(?:[_.:/-][A-Za-z]*[0-9]{0,3})+\Z")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+(?:[/:].*)?\Z")
_SIGNS = re.compile(r"[!@#$%^&*+?~=|;]")


def made_up(value: str) -> bool:
    """Whether a run of characters of a known shape was plainly written as an example."""
    few = len(set(value)) < min(6, max(3, len(value) // 3))
    return few or _stands_in(value)


def _stands_in(value: str) -> bool:
    lower = value.lower()
    return any(words in lower for words in _STAND_INS)


def placeholder(value: str) -> bool:
    """Whether a value stands for a credential: a word such as `secret`, a variable, a template, `xxxx`."""
    if value.strip("-_*.!\"'").rstrip("0123456789").lower() in _WORDS or len(set(value)) < 4:
        return True
    return _stands_in(value) or _TEMPLATE.search(value) is not None or _ADDRESS.match(value) is not None


def random_looking(value: str) -> bool:
    """Whether a value reads like drawn characters: letters, digits and case change faster than words do."""
    pieces = _SEGMENTS.findall(value)
    letters = any(character.isalpha() for character in value)
    if not pieces or not letters:
        return False
    if value.isalpha():
        return len(value) >= 12 and (len(value) < 2.5 * len(pieces) or _CONSONANTS.search(value) is not None)
    if not any(character.isdigit() for character in value):
        return False
    if len(value) >= 16 and _HEX.match(value):
        return True
    longest_mean = 3.4 if len(value) >= 20 else 3  # a long name of words this short is rare
    return sum(map(len, pieces)) < longest_mean * len(pieces) and _NAME.match(value.strip("!*?#")) is None


def password_like(value: str) -> bool:
    """Whether a value that stands where a password is given is one: a digit or a sign in it, and no name or path."""
    if len(value) < 6 or value.startswith(("/", "./", "~/", "--")) or "://" in value:
        return False
    mixed = any(character.isdigit() for character in value) and any(character.isalpha() for character in value)
    return (mixed or _SIGNS.search(value) is not None) and _NAME.match(value) is None
