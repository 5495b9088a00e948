"""Which moment does a caller mean by a date, a time, or words like `2 days ago`?"""

from __future__ import annotations

import re
import time

from memoryd.catalog.memories import instant

SECOND = 1_000_000
_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_AGO = re.compile(r"(\d{1,5}|an?) (minute|hour|day|week)s? ago")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAYS = {"today": 0, "yesterday": 1}


def moment(text: str, now: int) -> int | None:
    """Microseconds since 1970 of what `text` says at `now`; None where it says no moment.

    An ISO 8601 date or time (without a zone it is UTC, as every time in answers; a date is its first moment), `today`,
    `yesterday`, `N minutes|hours|days|weeks ago`.
    """
    words = " ".join(text.lower().split())
    if words == "now":
        return now
    if words in _DAYS:
        day = _UNITS["day"] * SECOND
        return now - now % day - _DAYS[words] * day
    ago = _AGO.fullmatch(words)
    if ago is not None:
        return now - (int(ago[1]) if ago[1].isdigit() else 1) * _UNITS[ago[2]] * SECOND
    return instant(text) if _DATED.match(words) else None


def told(at: int) -> str:
    """A moment as answers show it: UTC, ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // SECOND))
