"""How does a person tell memoryd which folders to read, and follow the work on them?"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from memoryd.cli_words import counted
from memoryd.errors import ConfigError, CorpusUnreadable, DaemonUnavailable, HomeBusy
from memoryd.shell import Context, emit, json_option, run_job

if TYPE_CHECKING:
    from memoryd.config import CorpusConfig


@click.group()
def corpus() -> None:
    """Read-only folders whose files are searchable."""


@corpus.command("add")
@click.argument("label")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--include", multiple=True, help="Glob of files to take; default `**/*.md`.")
@click.option("--exclude", multiple=True, help="Glob of files to leave out.")
@click.option("--scope", default="global", show_default=True, help="`global` or a project id.")
@click.option("--code", is_flag=True, help="Take source files too.")
@json_option
@click.pass_obj
def add(
    context: Context,
    label: str,
    path: Path,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    scope: str,
    code: bool,
    as_json: bool,
) -> None:
    """Add PATH under LABEL to config.json.

    A running daemon is restarted so that it takes effect.
    """
    entry: dict[str, Any] = {"label": label, "path": _absolute(path), "scope": _known_form(scope), "code": code}
    if include:
        entry["include"] = list(include)
    if exclude:
        entry["exclude"] = list(exclude)
    target = _append(context, entry)
    try:
        restarted = context.stop() is not None  # sessions go on with the next daemon by themselves
    except (HomeBusy, DaemonUnavailable):
        restarted = False  # it is written; a daemon that runs on says that the file differs
    data = {"added": entry, "config": str(target), "restarted": restarted, "next": f"memoryd corpus scan {label}"}
    emit(data, as_json, lambda: click.echo(f"Added {label} to {target}. Next: {data['next']}"))


def _absolute(path: Path) -> str:
    """The path as it goes into config.json: links stay, so that they may lead elsewhere later; `..` is resolved, since
    what it means depends on them."""
    try:
        place = path.expanduser().absolute()
        return os.path.realpath(place) if ".." in place.parts else str(place)
    except RuntimeError as error:
        raise ConfigError(f"{path} is not a path: {error}", next_step="Name an existing folder.") from error


def _known_form(scope: str) -> str:
    from memoryd.config import SCOPE_PATTERN

    if not re.match(SCOPE_PATTERN, scope):
        step = "Give `--scope` as `global` or as a project id that `memoryd status` shows in a folder of that project."
        raise ConfigError(f"{scope!r} is no scope.", next_step=step)
    return scope


def _require_readable(corpus: CorpusConfig, base: Path) -> None:
    from memoryd.sources import corpora

    try:
        corpora.check_root(corpus, base=base)
    except CorpusUnreadable as error:
        raise CorpusUnreadable(error.message, next_step="Name an existing folder that this user may read.") from error


def _append(context: Context, entry: Mapping[str, Any]) -> Path:
    """Write the new entry after everything was checked; the file stays as it was on any error."""
    from memoryd.config import LoadedConfig, config_path, load_config, parse_config
    from memoryd.files import Files
    from memoryd.sources import corpora

    target = config_path(context.root, os.environ)
    before = load_config(target)
    data = json.loads(target.read_bytes()) if target.exists() else {}
    data["corpora"] = [*data.get("corpora", []), dict(entry)]
    try:
        raw = (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError as error:
        raise ConfigError(f"{entry['path']!r} is not UTF-8.", next_step="Rename the folder.") from error
    after = LoadedConfig(parse_config(raw, str(target)), target, before.sha256)
    reserved = [context.root, after.vault_folder(context.root)]
    corpora.validate(after.config.corpora, base=target.parent, reserved=reserved)
    _require_readable(after.config.corpora[-1], target.parent)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        Files().replace(target, raw, owner="config")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}.", path=str(target)) from error
    return target


@corpus.command("list")
@json_option
@click.pass_obj
def list_corpora(context: Context, as_json: bool) -> None:
    """Show the corpora in force with their document counts."""
    from memoryd import show

    status = context.tool("memory_status", {})
    data = {"corpora": status["corpora"], "orphaned": status["orphaned"]}
    data["elsewhere"] = {name: status["elsewhere"][name] for name in ("corpora", "orphaned")}
    columns = ["label", "documents", "scope", "code", "path", "problem"]

    def human() -> None:
        if data["corpora"]:
            show.rows(columns, [[one[name] for name in columns] for one in data["corpora"]])
        else:
            click.echo("No folders here. `memoryd corpus add LABEL FOLDER` makes one searchable.")
        _show_orphaned(data["orphaned"])
        if status["config"]["differs"]:
            click.echo("config.json has changed: after `memoryd stop` the next start reads it.")
        if hidden := sum(data["elsewhere"].values()):
            click.echo(f"{hidden} more of other projects: call it there, or see `memoryd config`.")

    emit(data, as_json, human)


@corpus.command("scan")
@click.argument("labels", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only count files by top folder.")
@click.option(
    "--drop", multiple=True, help="A label that is no longer in config.json: its documents leave the search results."
)
@click.option("--full", is_flag=True, help="Read every file, also those whose size and times are as they were.")
@click.option("--accept-removals", is_flag=True, help="Nearly all files of LABELS are gone, and that is meant.")
@json_option
@click.pass_obj
def scan(
    context: Context,
    labels: tuple[str, ...],
    dry_run: bool,
    drop: tuple[str, ...],
    full: bool,
    accept_removals: bool,
    as_json: bool,
) -> None:
    """Read LABELS (all when none) and store what changed.

    Exit code 1, with the report, where a root could not be read or is suddenly (nearly) empty, where the configuration
    differs from the one in force, or where the check at the end finds something wrong.
    """
    arguments: dict[str, Any] = {"labels": list(labels) or None, "dry_run": dry_run}
    if full:
        arguments["full"] = True
    if accept_removals:
        arguments["accept_removals"] = True
    if drop:
        arguments["drop"] = list(drop)
    data = run_job(context, "corpus-scan", arguments, as_json)
    emit(data, as_json, lambda: _show_scan(data))
    if not data["ok"]:
        raise SystemExit(1)


def _show_orphaned(found: Sequence[Mapping[str, Any]]) -> None:
    for one in found:
        click.echo(
            f"{one['label']}: {counted(one['documents'], 'document')}, no longer in config.json. "
            f"To drop: {one['next_step']}"
        )


def _show_scan(data: Mapping[str, Any]) -> None:
    for label, report in data["corpora"].items():
        if data["dry_run"]:
            click.echo(f"{label}: {counted(report['files'], 'file')} would be read")
            for folder, count in sorted(report.get("folders", {}).items()):
                click.echo(f"  {count:>7}  {folder}")
        else:
            counts = ", ".join(f"{report[name]} {name}" for name in ("added", "changed", "unchanged", "removed"))
            click.echo(f"{label}: {counted(report['files'], 'file')}: {counts}")
        for problem in report["problems"]:
            click.echo(f"  {problem.get('where', label)}: {problem['message']}")
    for label, dropped in data.get("dropped", {}).items():
        whole = counted(dropped["documents"], "document")
        click.echo(f"{label}: {dropped['removed']} of {whole} dropped; contents stay stored")
    _show_orphaned(data["orphaned"])
    if data.get("config_differs"):
        click.echo(data["config_differs"])
    for problem in data.get("check", {}).get("problems", []):
        click.echo(f"check: {problem}")
    if pending := data.get("check", {}).get("pending"):
        are = "is" if pending == 1 else "are"
        click.echo(f"{counted(pending, 'document')} {are} being indexed; `memoryd status` shows how far that is.")


@click.group()
def job() -> None:
    """Long work that the daemon does: scans, rebuilds, checks."""


@job.command("list")
@json_option
@click.pass_obj
def list_jobs(context: Context, as_json: bool) -> None:
    """Show the newest jobs."""
    from memoryd import show

    data = context.ask(lambda client: client.request("GET", "/api/jobs"))
    columns = ["id", "kind", "state", "steps", "note"]
    lines = [_job_row(one) for one in data["jobs"]]
    emit(data, as_json, lambda: show.rows(columns, lines) if lines else click.echo("No jobs yet."))


def _job_row(one: Mapping[str, Any]) -> list[str]:
    steps = f"{one['done']}/{one['total']}" if one["total"] else "-"
    return [one["id"], one["kind"], one["state"], steps, one["note"]]


@job.command("show")
@click.argument("number")
@json_option
@click.pass_obj
def show_job(context: Context, number: str, as_json: bool) -> None:
    """Show one job with its progress and result."""
    from memoryd import show

    data = context.ask(lambda client: client.request("GET", f"/api/jobs/{quote(number, safe='')}"))
    emit(data, as_json, lambda: show.pairs(f"job {number}", data))
