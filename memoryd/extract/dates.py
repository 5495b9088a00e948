"""Which days does a text name, and which stretch of days does a question mean?

Days are counted from 1970-01-01. Read are ISO dates, English dates (`8 May, 2023`, `May 8th 2023`) and, in questions,
months, years and what is said from today (`yesterday`, `last week`, `3 days ago`).
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta
from typing import NamedTuple

_EPOCH = date(1970, 1, 1)
_MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
_MONTH = "|".join(sorted({*_MONTHS, *(month[:3] for month in _MONTHS), "sept"}, key=len, reverse=True))
_ISO = re.compile(r"(?<!\d)((?:19|20)\d\d)-(\d\d)-(\d\d)(?!\d)")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)? (?:of )?({_MONTH})\b\.?,? ?((?:19|20)\d\d)\b", re.I)
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\b\.? (\d{{1,2}})(?:st|nd|rd|th)?,? ((?:19|20)\d\d)\b", re.I)
_MONTH_OF = re.compile(rf"\b({_MONTH})\b\.?,? (?:of )?((?:19|20)\d\d)\b", re.I)
# "may" and "march" alone are words more often than months: they need a preposition and a capital letter.
_MONTH_ALONE = re.compile(rf"\b(?:in|during|since|last|this|of) ({'|'.join(m.title() for m in _MONTHS)})\b")
_YEAR = re.compile(r"\b(?:in|during|since|of) ((?:19|20)\d\d)\b", re.I)
_AGO = re.compile(r"\b(\d{1,3}|an?|two|three|four|five|six) (day|week|month|year)s? ago\b", re.I)
_SAID = re.compile(r"\b(today|yesterday|(?:this|last|past) (?:week|weekend|month|year))\b", re.I)
_NUMBERS = {"a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_LENGTH = {"day": 1, "week": 7, "weekend": 7, "month": 31, "year": 366}


class Span(NamedTuple):
    """From the first to the last day, or with `month` (1 to 12) that month of any year."""

    first: int
    last: int
    month: int = 0

    def holds(self, day: int, later: int = 0) -> bool:
        """Whether a day is one of these, or comes at most `later` days after them."""
        if self.month:
            return (_EPOCH + timedelta(days=day)).month == self.month
        return self.first <= day <= self.last + later


def first_day(text: str) -> int:
    """The first whole date in a text, 0 for none."""
    found = [(match.start(), span.first) for match, span in _dates(text)]
    return min(found)[1] if found else 0


def day_of(moment: str) -> int:
    """The day of a timestamp that begins with an ISO date, 0 where it does not."""
    match = _ISO.match(moment)
    return _day(int(match[1]), int(match[2]), int(match[3])) if match is not None else 0


def meant(question: str, today: int) -> Span | None:
    """The days that a question asks about, None where it names none or several stretches."""
    spans = {span for _, span in _dates(question)}
    spans = spans or {_whole_month(int(match[2]), _month(match[1])) for match in _MONTH_OF.finditer(question)}
    spans = spans or {Span(0, 0, _month(match[1])) for match in _MONTH_ALONE.finditer(question)}
    spans = spans or {_year(int(match[1])) for match in _YEAR.finditer(question)}
    spans |= {_ago(match, today) for match in _AGO.finditer(question)} if today else set()
    spans |= {_since(match[1].lower(), today) for match in _SAID.finditer(question)} if today else set()
    return spans.pop() if len(spans) == 1 else None


def _dates(text: str) -> list[tuple[re.Match[str], Span]]:
    read = [(match, _day(int(match[1]), int(match[2]), int(match[3]))) for match in _ISO.finditer(text)]
    read += [(match, _day(int(match[3]), _month(match[2]), int(match[1]))) for match in _DAY_FIRST.finditer(text)]
    read += [(match, _day(int(match[3]), _month(match[1]), int(match[2]))) for match in _MONTH_FIRST.finditer(text)]
    return [(match, Span(day, day)) for match, day in read if day]


def _year(year: int) -> Span:
    return Span(_day(year, 1, 1), _day(year, 12, 31))


def _ago(match: re.Match[str], today: int) -> Span:
    amount = _NUMBERS.get(match[1].lower()) or int(match[1])
    length = _LENGTH[match[2].lower()]
    day = today - amount * length
    return Span(day - length // 2, day + length // 2)


def _since(said: str, today: int) -> Span:
    if said in ("today", "yesterday"):
        day = today - (said == "yesterday")
        return Span(day, day)
    which, _, unit = said.partition(" ")
    length = _LENGTH[unit]
    return Span(today - 2 * length if which == "last" else today - length, today)


def _whole_month(year: int, month: int) -> Span:
    return Span(_day(year, month, 1), _day(year, month, monthrange(year, month)[1]))


def _month(name: str) -> int:
    return next(at for at, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()[:3]))


def _day(year: int, month: int, day: int) -> int:
    try:
        return max(0, (date(year, month, day) - _EPOCH) // timedelta(days=1))
    except ValueError:
        return 0
