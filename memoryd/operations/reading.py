"""What does an agent get to see: search hits, whole entries?

Every road checks the caller's scopes. Each answer names the generation, the backlog, and why a leg did not run.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from memoryd.errors import InvalidInput
from memoryd.operations import answers, callers
from memoryd.operations.entries import get
from memoryd.operations.freshness import mark
from memoryd.operations.home import Caller, Home
from memoryd.operations.suggesting import suggestions
from memoryd.records import VAULT_SOURCE, Filter
from memoryd.search.kept import same
from memoryd.search.pipeline import Mode, Ranked

__all__ = ["get", "search"]

QUERY_LIMIT = 10_000
MOST_RESULTS = 20
"""What `max_results` may ask for at most."""
SPARE = 8
"""Documents ranked beyond those shown: for suggestions, and in place of ones that vanished or cannot be read."""


def search(
    home: Home,
    caller: Caller,
    *,
    query: str,
    max_results: int = 8,
    mode: Mode = "hybrid",
    path_prefix: str | None = None,
    kinds: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    scope: str | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """Ranked memories, documents and code for a query; see docs/tools for the answer's shape.

    Raises InvalidInput kinds and ScopeError kinds; a leg that cannot run is reported in `index.degraded`.
    """
    text, wanted = asked(home, caller, query, path_prefix, kinds, types, scope)
    began = time.perf_counter()
    index = answers.state(home)
    key = (text, mode, wanted, max_results)
    stamp = None if explain else answers.stamp(home, index)
    answer = None if stamp is None else home.kept.get(key, stamp)
    if answer is None:
        answer = _made(home, text, mode, wanted, max_results, index, explain=explain)
        now = None if stamp is None else answers.stamp(home, index)
        if stamp is not None and now is not None and same(stamp, now):
            home.kept.put(key, stamp, answer)
    mark(home, caller, answer["memories"])
    home.noticed.listed(caller.session, [one["fact"] for one in answer["memories"] if "fact" in one], home.clock())
    if explain:
        answer["explain"]["milliseconds"]["total"] = _milliseconds(began)
    return {**answer, "index": index, "mode": mode}


def _made(
    home: Home, text: str, mode: Mode, wanted: Filter, most: int, index: dict[str, Any], *, explain: bool
) -> dict[str, Any]:
    """The parts of an answer that only what is stored decides; what could not be read joins `index`."""
    outcome, _ = answers.ranked(home, text, mode, wanted, most + SPARE, index=index)
    began = time.perf_counter()
    shown = answers.hits(home, text, outcome.hits, most, wanted, explain=explain, around=True)
    index["degraded"] += shown.lost
    reading = _milliseconds(began)
    began = time.perf_counter()
    answer: dict[str, Any] = {
        "memories": shown.entries,
        "summary": _summary(shown.entries, outcome, mode, index),
        "suggestions": suggestions(home, text, outcome, shown, most, mode, wanted),
    }
    if explain:
        spent = {name: round(value, 3) for name, value in outcome.timings.items()}
        answer["explain"] = {
            "filter": {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(wanted).items()},
            "candidates": {leg: len(found) for leg, found in outcome.legs.items()},
            "left_out": shown.left_out,
            "under_floor": len(outcome.dropped),
            "milliseconds": {**spent, "excerpts": reading, "suggestions": _milliseconds(began)},
        }
    return answer


def _milliseconds(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def asked(
    home: Home,
    caller: Caller,
    query: str,
    path_prefix: str | None,
    kinds: Sequence[str] | None,
    types: Sequence[str] | None,
    scope: str | None,
) -> tuple[str, Filter]:
    """What is looked for, and among what. Raises InvalidInput kinds and ScopeError kinds."""
    if not query.strip():
        raise InvalidInput("`query` is blank.", parameter="query")
    scopes = callers.readable(home, caller, scope)
    prefix = checked_prefix(home, scopes, path_prefix)
    return query[:QUERY_LIMIT], Filter(scopes, kinds=tuple(kinds or ()), types=tuple(types or ()), path_prefix=prefix)


def checked_prefix(home: Home, scopes: tuple[str, ...], prefix: str | None) -> str | None:
    """`label/` or `label/folder/`; a missing last slash is added.

    Raises InvalidInput for a label of which the scopes hold nothing, whether others do or not.
    """
    if prefix is None or not prefix.strip("/ "):
        return None
    whole = prefix.strip().strip("/") + "/"
    label = whole.partition("/")[0]
    if label != VAULT_SOURCE and label not in (known := callers.sources(home, scopes)):
        names = ", ".join(f"`{one}/`" for one in sorted(known))
        message = f"`path_prefix` begins with {label[:80]!r}, which is no source in these scopes; there are {names}."
        raise InvalidInput(message, parameter="path_prefix", known=sorted(known))
    return whole


def _summary(memories: list[dict[str, Any]], outcome: Ranked, mode: str, index: dict[str, Any]) -> str:
    gap = gap_of(index)
    if not memories and gap:
        return f"Nothing found, but the search was not complete: {gap}. Do not take it for a no."
    if not memories and outcome.dropped:
        count = len(outcome.dropped)
        looked = "The one candidate is not" if count == 1 else f"None of {count} candidates is"
        modes = " or ".join(f"`mode: {one}`" for one in ("semantic", "keyword") if one != mode)
        advice = f"Try other words, {modes}, or a wider scope."
        if outcome.corrected and outcome.legs.get("lexical"):
            advice = "No word of the query stands anywhere; `mode: keyword` shows what is spelled alike."
        return f"Nothing relevant is stored. {looked} likely to answer the query. {advice}"
    if not memories:
        return "Nothing found. Try other words, another mode, or a wider scope."
    kinds = ", ".join(sorted({m["kind"] for m in memories}))
    said = f"{len(memories)} of {outcome.total} candidates shown ({kinds}), best first, {mode} search."
    if outcome.corrected:
        said += " No word of the query stands anywhere; what is spelled alike was looked for."
    return f"{said} Not complete: {gap}." if gap else said


def gap_of(index: dict[str, Any]) -> str:
    """What kept an answer from being complete, in a few words; '' for nothing."""
    parts = [f"{one['leg']}: {one['message'].rstrip('.')}" for one in index["degraded"]]
    if index["pending"]:
        parts.append(answers.waiting(index["pending"]))
    return "; ".join(parts)
