"""What changed in the folders and directories that a session may see, since a snapshot or since a moment?

A moment stands for the newest snapshot at or before it. What no snapshot tells is named, never guessed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memoryd.catalog.memories import instant
from memoryd.errors import InvalidInput, NotFound, StoreError
from memoryd.operations import callers
from memoryd.operations.changes import compare
from memoryd.operations.home import Caller, Home
from memoryd.operations.kept import Scopes, find
from memoryd.operations.moments import SECOND, moment, told
from memoryd.records import SnapshotRecord

BUDGET = 24_000
"""Characters of all names that one answer lists; the counts are always whole."""
LABELS_SHOWN = 50
COMPARED_MOST = 50
"""Labels that one answer compares."""
_LISTS = ("modified", "added", "removed", "renamed")
Series = list[SnapshotRecord]
"""The snapshots of one label, source and scope, oldest first."""


@dataclass(frozen=True, slots=True)
class _Moment:
    at: int
    label: str | None


def diff_since(
    home: Home, caller: Caller, *, since: str, until: str | None = None, path_prefix: str | None = None
) -> dict[str, Any]:
    """What changed between two snapshots, or between two moments in everything that the caller may see.

    `path_prefix` is `label/` or `label/folder/`, as in a search. Raises NotFound, InvalidInput, ContentDamaged.
    """
    scopes = callers.readable(home, caller, None)
    everything = _series(home, scopes)
    label, inside = _prefix(path_prefix, everything)
    start = _point(home, since, "since", scopes, everything)
    end = None if until is None else _point(home, until, "until", scopes, everything)
    _in_order(home, start, end)
    named = _one_label(label, start, end)
    if isinstance(start, SnapshotRecord):
        chosen = [_series_of(start, everything)]
    elif isinstance(end, SnapshotRecord):
        chosen = [_series_of(end, everything)]
    else:
        chosen = [series for series in everything if named in (None, series[-1].label)]
    answer = _Answer(home, inside, alone=isinstance(start, SnapshotRecord) or len(chosen) == 1)
    for series in chosen:
        _require_label(named, series)
        before = _former(series, since, until, start)
        after = series[-1] if end is None else end if isinstance(end, SnapshotRecord) else _at(series, end.at)
        answer.take(series, before, after)
    moments = {name: told(one.at) for name, one in (("since", start), ("until", end)) if isinstance(one, _Moment)}
    return {**moments, **answer.shown(everything)}


def _series(home: Home, scopes: Scopes) -> list[Series]:
    found: dict[tuple[str, str, str], Series] = defaultdict(list)
    for record in reversed(home.snapshots.all(scopes)):
        found[record.label, record.source, record.scope].append(record)
    return [found[key] for key in sorted(found)]


def _series_of(record: SnapshotRecord, everything: Sequence[Series]) -> Series:
    return next((series for series in everything if record in series), [record])


def _prefix(path_prefix: str | None, everything: Sequence[Series]) -> tuple[str | None, str | None]:
    """The label and the path below it. Raises InvalidInput for a label that nothing visible has."""
    whole = (path_prefix or "").strip().strip("/")
    if not whole:
        return None, None
    labels = {series[-1].label for series in everything}
    found = [label for label in labels if f"{whole}/".startswith(f"{label}/")]
    if not found:
        raise InvalidInput(
            f"`path_prefix` begins with {whole.partition('/')[0][:80]!r}, which is no label of a snapshot in this "
            "session's scopes.",
            next_step="Give `label/` or `label/folder/` with one of `details.labels`.",
            parameter="path_prefix",
            labels=sorted(labels)[:LABELS_SHOWN],
        )
    label = max(found, key=len)
    return label, whole[len(label) + 1 :] or None


def _point(
    home: Home, name: str, parameter: str, scopes: Scopes, everything: Sequence[Series]
) -> SnapshotRecord | _Moment:
    """The snapshot or the moment that is meant. Raises NotFound, InvalidInput."""
    try:
        return find(home, name, scopes)
    except NotFound:
        labels = sorted({series[-1].label for series in everything})
    now = int(home.clock() * SECOND)
    label, _, rest = name.rpartition("@")
    if label in labels and (at := moment(rest, now)) is not None:
        return _Moment(at, label)
    if (at := moment(name, now)) is not None:
        return _Moment(at, None)
    raise NotFound(
        f"`{parameter}` {name[:100]!r} is neither a snapshot in this session's scopes nor a time.",
        next_step="Give a label of `details.labels`, `label@-2`, `label@2026-11-28`, or a time such as `2 days ago`.",
        labels=labels[:LABELS_SHOWN],
    )


def _in_order(home: Home, start: SnapshotRecord | _Moment, end: SnapshotRecord | _Moment | None) -> None:
    if not isinstance(start, _Moment):
        return
    if start.at > int(home.clock() * SECOND):
        raise InvalidInput(f"`since` {told(start.at)} lies in the future.", parameter="since")
    if isinstance(end, _Moment) and end.at < start.at:
        raise InvalidInput(f"`until` {told(end.at)} lies before `since` {told(start.at)}.", parameter="until")


def _one_label(label: str | None, *points: SnapshotRecord | _Moment | None) -> str | None:
    """The label that `path_prefix` or a `label@time` names. Raises InvalidInput where they name several."""
    found = {label, *(one.label for one in points if isinstance(one, _Moment))} - {None}
    if len(found) > 1:
        raise _several(*sorted(str(one) for one in found))
    return found.pop() if found else None


def _require_label(label: str | None, series: Series) -> None:
    if label is not None and series[-1].label != label:
        raise _several(label, series[-1].label)


def _several(one: str, other: str) -> InvalidInput:
    return InvalidInput(
        f"The arguments name both {one!r} and {other!r}.",
        next_step="Use one label in `since`, `until` and at the beginning of `path_prefix`.",
        parameter="since",
    )


def _former(series: Series, since: str, until: str | None, start: SnapshotRecord | _Moment) -> SnapshotRecord | None:
    """The earlier side. A label alone means what its newest snapshot changed. Raises NotFound where that is unknown."""
    if isinstance(start, _Moment):
        return _at(series, start.at)
    if since != start.label or until is not None:
        return start
    if len(series) < 2:
        raise NotFound(
            f"{since!r} has one snapshot, of {start.created}: nothing earlier is kept to compare it with.",
            next_step="Ask again after its next snapshot or scan.",
        )
    return series[-2]


def _at(series: Series, at: int) -> SnapshotRecord | None:
    """The newest snapshot at or before a moment."""
    earlier = [record for record in series if (instant(record.created) or 0) <= at]
    return earlier[-1] if earlier else None


class _Answer:
    """Comparisons as they are found; `alone`: there is only one, so that what goes wrong with it is the answer."""

    def __init__(self, home: Home, inside: str | None, *, alone: bool) -> None:
        self._home = home
        self._inside = inside
        self._alone = alone
        self._compared = 0
        self._changes: list[dict[str, Any]] = []
        self._unchanged: list[dict[str, Any]] = []
        self._unknown: list[dict[str, Any]] = []

    def take(self, series: Series, before: SnapshotRecord | None, after: SnapshotRecord | None) -> None:
        """Compare the two, or note why that cannot be. Raises NotFound, ContentDamaged."""
        label = series[-1].label
        if before is None or after is None:
            reason = f"No snapshot is as old as that: its first is of {series[0].created}."
            self._unknown.append({"label": label, "scope": series[0].scope, "reason": reason})
            return
        if self._compared == COMPARED_MOST:
            reason = f"{COMPARED_MOST} labels were compared before it: name it with `path_prefix`."
            self._unknown.append({"label": label, "scope": series[0].scope, "reason": reason})
            return
        self._compared += 1
        try:
            found = compare(self._home, before, after, path_prefix=self._inside)
        except (NotFound, StoreError) as error:
            if self._alone:
                raise
            self._unknown.append({"label": label, "scope": series[0].scope, "reason": error.message})
            return
        if found["same"]:
            self._unchanged.append({"label": label, "scope": after.scope, "seq": after.seq, "created": after.created})
        else:
            self._changes.append({"label": label, **found})

    def shown(self, everything: Sequence[Series]) -> dict[str, Any]:
        """The whole answer, its lists cut to the budget."""
        for one in self._changes:
            _cut(one, BUDGET // len(self._changes))
        return {
            "changes": self._changes,
            "unchanged": self._unchanged,
            "not_compared": self._unknown,
            "summary": self._summary(everything),
            "next": self._next(),
        }

    def _summary(self, everything: Sequence[Series]) -> str:
        if not everything:
            return "No snapshots are kept in this session's scopes, so nothing is known of changes."
        parts = []
        for one in self._changes:
            counts = ", ".join(f"{number} {name}" for name, number in one["counts"].items() if number)
            parts.append(f"{one['label']}: {counts}")
        if self._unchanged:
            parts.append("unchanged: " + ", ".join(one["label"] for one in self._unchanged))
        if self._unknown:
            parts.append("not known: " + ", ".join(one["label"] for one in self._unknown))
        lacking = sum(bool(one[side]["left_out"]) for one in self._changes for side in ("before", "after"))
        more = " Some of it could not be read when it was taken (`left_out`): absence there is no deletion."
        return "; ".join(parts) + "." + (more if lacking else "")

    def _next(self) -> str:
        steps = []
        if any(one["cut"] for one in self._changes):
            steps.append("Not all names are listed: narrow with `path_prefix`, as `label/folder/`.")
        if self._changes:
            steps.append(
                "memory_get reads a file of either side: `source` `snapshot:<seq>/<path>`, with the `seq` of "
                "`before` or `after`."
            )
        if not steps:
            steps.append("Folders are known as their last scan saw them; `memoryd corpus scan` looks again.")
        return " ".join(steps)


def _cut(found: dict[str, Any], budget: int) -> None:
    """Shorten the lists of one comparison to a budget of characters; what short ones leave over goes to longer ones."""
    names = sorted(_LISTS, key=lambda name: len(found[name]))
    for number, name in enumerate(names):
        share = budget // (len(names) - number)
        kept = 0
        for size in (len(json.dumps(one, ensure_ascii=False)) for one in found[name]):
            if size > share:
                break
            share -= size
            budget -= size
            kept += 1
        found[name] = found[name][:kept]
    found["cut"] = any(len(found[name]) < found["counts"][name] for name in _LISTS)
