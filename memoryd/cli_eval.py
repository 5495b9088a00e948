"""How does a person measure retrieval: on labelled sets, on their own vault, and against no memory at all?"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.cli_words import counted
from memoryd.errors import InvalidInput
from memoryd.shell import Context, emit, json_option

if TYPE_CHECKING:
    from memoryd.config import LoadedConfig

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
NEW_FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
FAILED = 1


@click.command("eval")
@click.argument("folder", type=FOLDER, required=False)
@click.option("--ablations", is_flag=True, help="Also without each part of the recipe; takes longer.")
@click.option("--report", type=NEW_FOLDER, metavar="DIR", help="Write report.json, report.md and plots there.")
@click.option("--compare", type=FILE, metavar="REPORT.JSON", help="Exit 1 where something is worse than it says.")
@click.option("--own", is_flag=True, help="Ask the memories of this home instead of a set.")
@click.option("--ab", "tasks", type=FILE, metavar="TASKS", help="Tasks over FOLDER: no memory, git grep, memoryd.")
@json_option
@click.pass_obj
def evaluate(
    context: Context,
    folder: Path | None,
    ablations: bool,
    report: Path | None,
    compare: Path | None,
    own: bool,
    tasks: Path | None,
    as_json: bool,
) -> None:
    """Measure retrieval, in a temporary home.

    Model and search are as the settings of this home say.

    FOLDER is a set in BEIR form (corpus.jsonl, queries.jsonl, qrels.tsv), or holds several. With --ab it holds the
    text files that TASKS (one JSON object a line: `question`, `expected`) are about.
    """
    if own == (folder is not None):
        raise InvalidInput("`eval` needs FOLDER, or --own without one.", next_step="See `memoryd eval --help`.")
    if tasks is not None:
        if ablations or report is not None or compare is not None:
            raise InvalidInput("--ab takes none of --ablations, --report, --compare.", next_step="Leave these out.")
        _compare_arms(context, folder, tasks, as_json)
        return
    if report is not None:
        from memoryd.operations.plots import require_engine

        require_engine()
    data = _measured(context, folder, ablations, as_json)
    worse, new = _compared(data, compare)
    if report is not None:
        _write(data, report)
    emit({**data, "regressions": worse, "uncompared": new}, as_json, lambda: _show(data, worse, new))
    if worse:
        raise SystemExit(FAILED)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "memoryd" / "embeddings.db"


def _measured(context: Context, folder: Path | None, ablations: bool, as_json: bool) -> dict[str, Any]:
    from memoryd import show
    from memoryd.operations.evaluate import evaluate_all, evaluate_own

    loaded = _loaded(context)
    with show.Bar(quiet=as_json) as progress:
        common: dict[str, Any] = {**_as_here(context), "ablate": ablations, "progress": progress}
        if folder is not None:
            return evaluate_all(folder, **common)
        return evaluate_own(context.root, loaded.vault_folder(context.root), **common)


def _loaded(context: Context) -> LoadedConfig:
    from memoryd.config import config_path, load_config

    return load_config(config_path(context.root, os.environ))


def _as_here(context: Context) -> dict[str, Any]:
    """What every measurement takes from this home and this user: the settings, and where embeddings are kept."""
    from memoryd.operations.temporary import measured_as

    return {"cache_path": _cache(), "settings": measured_as(_loaded(context), context.root)}


def _compare_arms(context: Context, folder: Path | None, tasks: Path, as_json: bool) -> None:
    from memoryd import show
    from memoryd.operations.arms import compare_arms, read_tasks

    if folder is None:
        raise InvalidInput("--ab needs the FOLDER that the tasks are about.", next_step="See `memoryd eval --help`.")
    with show.Bar(quiet=as_json) as progress:
        data = compare_arms(folder, read_tasks(tasks), **_as_here(context), progress=progress)
    emit(data, as_json, lambda: _show_arms(data))


def _compared(data: Mapping[str, Any], committed: Path | None) -> tuple[list[str], list[str]]:
    """What is worse, and the sets that the report does not know."""
    from memoryd.operations.report import regressions, uncompared

    if committed is None:
        return [], []
    try:
        old = json.loads(committed.read_text())
        return regressions(data, old), uncompared(data, old)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{committed} is no report of `memoryd eval`.") from error


def _write(data: Mapping[str, Any], folder: Path) -> None:
    from memoryd.operations.plots import draw
    from memoryd.operations.report import markdown

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n")
    (folder / "report.md").write_text(markdown(data, draw(data, folder)))


def _show(data: Mapping[str, Any], worse: list[str], new: list[str]) -> None:
    from memoryd import show

    for name, one in data["sets"].items():
        click.echo(f"{name}: {counted(one['queries'], 'query', 'queries')}, {one['passages']} passages")
        measures = list(one["arms"]["hybrid"])
        rows = [[arm, *(f"{value:.3f}" for value in values.values())] for arm, values in one["arms"].items()]
        show.rows(["arm", *measures], rows)
        best = one["hybrid_minus_best"]
        span = f"nDCG@10 {best['mean']:+.4f} [{best['low']:+.4f}, {best['high']:+.4f}]"
        click.echo(f"hybrid minus {one['best_leg']}: {span}; latency {show.shown(one['latency_ms'])} ms")
    for line in worse:
        click.echo(f"Worse: {line}")
    for name in new:
        click.echo(f"Not compared: {name} does not stand in the committed report.")


def _show_arms(data: Mapping[str, Any]) -> None:
    from memoryd import show

    rows = [
        [arm, f"{one['won']} of {data['tasks']}", f"{one['tokens']}", f"{one['p50_ms']:.1f}"]
        for arm, one in data["arms"].items()
    ]
    show.rows(["arm", "tasks won", "mean tokens", "p50 ms"], rows)
    for arm, only in data["only"].items():
        for question in only:
            click.echo(f"Only {arm}: {question}")
