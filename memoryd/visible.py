"""How do words of others reach a person's terminal without steering it?

A memory or a file name may hold escape sequences that clear the screen, hide the rest of a plan or turn its letters
round, so that a person confirms something else than what is shown.
"""

from __future__ import annotations

import re
from typing import Any

_STEERING = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def visible(text: str) -> str:
    """The text with every sign that would steer a terminal written as its escape; line ends and tabs stay."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def make_visible(value: Any) -> Any:
    """An answer whose texts are all `visible`; dictionaries and lists are changed in their place."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        value.update({key: make_visible(one) for key, one in value.items()})
    elif isinstance(value, list):
        value[:] = map(make_visible, value)
    return value
