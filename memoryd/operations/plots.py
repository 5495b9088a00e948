"""What does an evaluation look like? Drawn with matplotlib, where the extra `eval` is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memoryd.errors import ExtraMissing, install_extra

ARMS = "arms.svg"
ABLATIONS = "ablations.svg"
COLOURS = ("#4c72b0", "#dd8452", "#8c8c8c", "#55a868", "#c44e52", "#8172b3", "#937860")


def require_engine() -> None:
    """Whether pictures can be drawn at all, before anything is measured for them. Raises ExtraMissing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ExtraMissing(
            "A report has pictures, which need matplotlib; it is not installed. Nothing was measured.",
            next_step=f"{install_extra('eval')}.",
        )


def draw(report: Mapping[str, Any], folder: Path) -> list[str]:
    """Draw the pictures into `folder`; the names of their files. Raises OSError."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "memoryd", "font.size": 9}  # the same report gives the same bytes
    names = [ARMS]
    _arms(report["sets"], folder / ARMS)
    if any(one["ablations"] for one in report["sets"].values()):
        _ablations(report["sets"], folder / ABLATIONS)
        names.append(ABLATIONS)
    return names


def _arms(sets: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """nDCG@10 of each arm, set by set, side by side."""
    from matplotlib import pyplot

    names = sorted(sets)
    arms = list(dict.fromkeys(arm for name in names for arm in sets[name]["arms"]))
    figure, axes = pyplot.subplots(figsize=(2.6 + 1.3 * len(names), 3.4), layout="constrained")
    width = 0.8 / len(arms)
    for at, arm in enumerate(arms):
        heights = [sets[name]["arms"].get(arm, {}).get("ndcg@10", 0.0) for name in names]
        places = [place + (at - (len(arms) - 1) / 2) * width for place in range(len(names))]
        axes.bar(places, heights, width, label=arm, color=COLOURS[at % len(COLOURS)])
    axes.set_xticks(range(len(names)), names, rotation=20, ha="right")
    axes.set_ylabel("nDCG@10")
    axes.set_ylim(0, 1)
    axes.legend(ncols=len(arms), loc="upper left", frameon=False)
    _save(figure, path)


def _ablations(sets: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """What each part of the recipe is worth on each set: the change of nDCG@10 without it, with its interval."""
    from matplotlib import pyplot

    names = sorted(name for name, one in sets.items() if one["ablations"])
    rows = list(dict.fromkeys(row for name in names for row in sets[name]["ablations"]))
    size = (3.4 + 1.7 * len(names), 1.0 + 0.24 * len(rows))
    figure, panels = pyplot.subplots(1, len(names), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for axes, name in zip(panels[0], names, strict=True):
        parts = [sets[name]["ablations"].get(row, {"mean": 0.0, "low": 0.0, "high": 0.0}) for row in rows]
        middles = [part["mean"] for part in parts]
        spans = [[part["mean"] - part["low"] for part in parts], [part["high"] - part["mean"] for part in parts]]
        axes.errorbar(middles, range(len(rows)), xerr=spans, fmt="o", markersize=3, color=COLOURS[0], linewidth=1)
        axes.axvline(0, color="#999999", linewidth=0.7)
        axes.set_title(name, fontsize=9)
        axes.tick_params(axis="x", labelsize=7)
    panels[0][0].set_yticks(range(len(rows)), rows)
    panels[0][0].invert_yaxis()
    figure.supxlabel("change of nDCG@10", fontsize=8)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    figure.savefig(path, format="svg", metadata={"Date": None})
    pyplot.close(figure)
