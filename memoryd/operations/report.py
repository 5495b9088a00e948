"""What does an evaluation say to people, and is it worse than the one that was committed?

A report is one JSON object: `sets` holds what `operations.evaluate` found of each set by its name. What a person reads
is made of it alone, so a committed report can always be drawn again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memoryd.operations.scoring import difference

SHOWN = ("ndcg@10", "recall@10", "mrr", "precision@5")
ARM = "hybrid"


def pooled(found: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """nDCG@10 of hybrid minus the best leg of each set, over the queries of all sets together."""
    hybrid: list[float] = []
    best: list[float] = []
    for one in found.values():
        hybrid += [value / 1000 for value in one["per_query"][ARM]]
        best += [value / 1000 for value in one["per_query"][one["best_leg"]]]
    return difference(hybrid, best)


def regressions(found: Mapping[str, Any], committed: Mapping[str, Any]) -> list[str]:
    """What is worse than in the committed report by more than chance explains: the upper end of the 95 % interval of
    the paired difference is below zero. A set that was measured on other files is named, too, and another model."""
    if found["model"]["fingerprint"] != committed["model"]["fingerprint"]:
        return [f"The committed report was made with {committed['model']['name']}; nothing can be compared."]
    told = []
    for name, new in found["sets"].items():
        old = committed["sets"].get(name)
        if old is None:
            continue
        if old["digest"] != new["digest"]:
            told.append(f"{name}: its files are not those of the committed report; nothing can be compared.")
            continue
        for arm in new["per_query"]:
            change = _change(new["per_query"][arm], old["per_query"].get(arm))
            if change is not None and change["high"] < 0:
                told.append(
                    f"{name}, {arm}: nDCG@10 {change['mean']:+.4f} [{change['low']:+.4f}, {change['high']:+.4f}]."
                )
    return told


def uncompared(found: Mapping[str, Any], committed: Mapping[str, Any]) -> list[str]:
    """The sets of which the committed report says nothing."""
    return [name for name in found["sets"] if name not in committed["sets"]]


def _change(new: Sequence[int], old: Sequence[int] | None) -> dict[str, float] | None:
    if old is None or len(old) != len(new):
        return None
    return difference([value / 1000 for value in new], [value / 1000 for value in old])


def markdown(report: Mapping[str, Any], plots: Sequence[str] = ()) -> str:
    """The whole report as one page; `plots` are file names beside it."""
    lines = ["# How good is retrieval?", "", *_made(report), "", *_overview(report["sets"]), ""]
    lines += [f"![{name.rpartition('.')[0]}]({name})\n" for name in plots]
    for name, one in sorted(report["sets"].items()):
        lines += [f"## {name}", "", *_of_set(one), ""]
    return "\n".join(lines).rstrip() + "\n"


def _made(report: Mapping[str, Any]) -> list[str]:
    model = f"model {report['model']['name']} (`{report['model']['fingerprint'][:12]}`)"
    best = "`hybrid - best` is the paired difference of nDCG@10 to the better of the single legs"
    return [
        f"memoryd {report['version']}, {model}; made with `memoryd eval`.",
        f"All queries of each set. {best}, with its 95 % bootstrap interval.",
    ]


def _overview(sets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    arms = list(dict.fromkeys(arm for one in sets.values() for arm in one["arms"]))
    rows = []
    for name, one in sorted(sets.items()):
        told = [_number(one["arms"].get(arm, {}).get("ndcg@10")) for arm in arms]
        best = one["hybrid_minus_best"]
        recall = _number(one["arms"][ARM]["recall@10"])
        rows.append([name, str(one["queries"]), *told, recall, _span(best), f"{one['latency_ms']['p95']:.1f}"])
    heads = ["set", "queries", *(f"{arm} nDCG@10" for arm in arms), "R@10", "hybrid - best", "p95 ms"]
    lines = _table(heads, rows)
    if len(sets) > 1:
        lines += ["", f"All queries pooled, hybrid - best: {_span(pooled(sets))}."]
    return lines


def _of_set(one: Mapping[str, Any]) -> list[str]:
    about = f"{one['documents']} documents, {one['passages']} passages, {one['queries']} queries."
    lines = [about, "", *_table(["arm", *SHOWN], [[arm, *_shown(values)] for arm, values in one["arms"].items()])]
    if one["categories"]:
        rows = [
            [name, str(part["queries"]), *(_number(part["arms"][arm]["ndcg@10"]) for arm in one["arms"])]
            for name, part in sorted(one["categories"].items())
        ]
        lines += ["", *_table(["category", "queries", *(f"{arm} nDCG@10" for arm in one["arms"])], rows)]
    if one["ablations"]:
        rows = [[name, _number(part["ndcg@10"]), _span(part)] for name, part in one["ablations"].items()]
        lines += ["", *_table(["without / instead", "nDCG@10", "change against the recipe"], rows)]
    latency = ", ".join(f"{name} {value:.1f}" for name, value in one["latency_ms"].items())
    return [*lines, "", f"Latency over distinct queries, ms: {latency}."]


def _shown(values: Mapping[str, float]) -> list[str]:
    return [_number(values[name]) for name in SHOWN]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _span(one: Mapping[str, float]) -> str:
    return f"{one['mean']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---" if at == 0 else "---:" for at in range(len(heads))]
    return ["| " + " | ".join(row) + " |" for row in (heads, rule, *rows)]
