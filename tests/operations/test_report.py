"""Does a report name what is worse than the committed one, and only that, and say all of it to people?"""

from __future__ import annotations

import copy

import pytest

from memoryd.errors import ExtraMissing
from memoryd.operations import plots
from memoryd.operations.report import markdown, pooled, regressions, uncompared
from memoryd.operations.scoring import MEASURES


def found(values, *, digest="d1", best=None):
    """One set's part of a report, with these nDCG@10 in thousandths."""
    arms = {"lexical": 0.4, "hybrid": sum(values) / len(values) / 1000}
    return {
        "digest": digest,
        "documents": 9,
        "passages": 11,
        "queries": len(values),
        "arms": {arm: dict.fromkeys(MEASURES, 0.25) | {"ndcg@10": value} for arm, value in arms.items()},
        "best_leg": "lexical",
        "hybrid_minus_best": {"mean": 0.1, "low": 0.05, "high": 0.15},
        "categories": {"when": {"queries": 2, "arms": {arm: {"ndcg@10": value} for arm, value in arms.items()}}},
        "ablations": {"no title": {"ndcg@10": 0.45, "mean": -0.05, "low": -0.07, "high": -0.03}},
        "latency_ms": {"p50": 1.0, "p95": 2.0, "p99": 3.0},
        "per_query": {"lexical": best or [400] * len(values), "hybrid": values},
    }


def report(**sets):
    return {"version": "1", "model": {"name": "embedded", "fingerprint": "f" * 64}, "sets": sets}


GOOD = [500, 600, 700, 800] * 25


def test_only_what_is_worse_beyond_its_interval_is_a_regression():
    committed = report(one=found(GOOD), other=found(GOOD))
    same = copy.deepcopy(committed)
    assert regressions(same, committed) == []
    noise = [value + (30 if at % 2 else -32) for at, value in enumerate(GOOD)]
    assert regressions(report(one=found(noise), other=found(GOOD)), committed) == []
    worse = [value - 40 for value in GOOD]
    told = regressions(report(one=found(worse), other=found([v + 40 for v in GOOD])), committed)
    assert told == ["one, hybrid: nDCG@10 -0.0400 [-0.0400, -0.0400]."]
    legs = report(one=found(GOOD, best=[350] * 100))
    assert regressions(legs, committed) == ["one, lexical: nDCG@10 -0.0500 [-0.0500, -0.0500]."]


def test_a_set_with_other_files_cannot_be_compared_and_a_new_one_has_nothing_to_lose():
    committed = report(one=found(GOOD))
    assert regressions(report(new=found([0] * 8)), committed) == []
    assert uncompared(report(new=found([0] * 8), one=found(GOOD)), committed) == ["new"]
    (told,) = regressions(report(one=found(GOOD, digest="d2")), committed)
    assert told.startswith("one: its files are not those")


def test_a_report_of_another_model_compares_with_nothing():
    other = report(one=found(GOOD)) | {"model": {"name": "big", "fingerprint": "0" * 64}}
    assert regressions(report(one=found(GOOD)), other) == [
        "The committed report was made with big; nothing can be compared."
    ]


def test_the_page_holds_every_arm_category_ablation_and_interval():
    page = markdown(report(one=found(GOOD), other=found(GOOD)), ["arms.svg"])
    assert "| one | 100 | 0.400 | 0.650 | 0.250 | +0.1000 [+0.0500, +0.1500] | 2.0 |" in page
    assert "All queries pooled, hybrid - best: +0.2500 [" in page
    assert "![arms](arms.svg)" in page
    assert "| when | 2 | 0.400 | 0.650 |" in page
    assert "| no title | 0.450 | -0.0500 [-0.0700, -0.0300] |" in page
    assert "p50 1.0, p95 2.0, p99 3.0" in page
    assert "pooled" not in markdown(report(one=found(GOOD)))


def test_queries_are_pooled_with_the_best_leg_of_their_own_set():
    told = pooled({"a": found([500] * 10), "b": found([300] * 30)})
    assert told["mean"] == pytest.approx((10 * 0.1 - 30 * 0.1) / 40)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(ExtraMissing) as told:
        plots.require_engine()
    assert "memoryd[eval]" in told.value.next_step


@pytest.mark.extras
def test_pictures_are_drawn_and_the_same_report_gives_the_same_bytes(tmp_path):
    whole = report(one=found(GOOD), other=found(GOOD))
    names = plots.draw(whole, tmp_path)
    assert names == ["arms.svg", "ablations.svg"]
    first = [(tmp_path / name).read_bytes() for name in names]
    assert all(b"<svg" in one for one in first)
    plots.draw(whole, tmp_path)
    assert [(tmp_path / name).read_bytes() for name in names] == first
    bare = {**found(GOOD), "ablations": {}}
    assert plots.draw(report(one=bare), tmp_path) == ["arms.svg"]
