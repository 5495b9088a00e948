"""How does a person look after an installation: settings, checks, measurements, repair of views?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import resources
from typing import Any

import click

from memoryd.cli_words import counted
from memoryd.client import ToldError
from memoryd.errors import DaemonUnavailable, InvalidInput, JobUnfinished
from memoryd.shell import Context, emit, json_option, owned, run_job

WARNED = 3
"""Exit code of a doctor that has only warnings; click takes 2 for a wrong command line."""


@click.command()
@json_option
def skill(as_json: bool) -> None:
    """Print the SKILL.md that tells an agent how to use memoryd."""
    text = (resources.files("memoryd") / "SKILL.md").read_text("utf-8")
    emit({"skill": text}, as_json, lambda: click.echo(text, nl=False))


@click.command()
@json_option
@click.pass_obj
def config(context: Context, as_json: bool) -> None:
    """Show the settings in force and where they come from."""
    from memoryd import show
    from memoryd.config import config_path, load_config

    loaded = load_config(config_path(context.root, os.environ))
    settings = loaded.config.model_dump(mode="json")
    data = {"path": str(loaded.path), "exists": loaded.path.exists(), "config": settings}
    emit(data, as_json, lambda: show.pairs(str(loaded.path), settings))


@click.command()
@json_option
@click.pass_obj
def doctor(context: Context, as_json: bool) -> None:
    """Check the installation and this home.

    Exit code 0 when all is well, 1 when a check fails, 3 when there are only warnings: memoryd works, but something
    (a memory's file that does not read as one) needs a person.
    """
    from memoryd import show
    from memoryd.operations.doctor import Place, examine

    found = examine(Place(context.root, os.environ))
    good = all(one["ok"] for one in found)
    emit({"ok": good, "checks": found}, as_json, lambda: show.checks(found))
    failed = any(not (one["ok"] or one.get("warning")) for one in found)
    raise SystemExit(1 if failed else 0 if good else WARNED)


@click.command()
@json_option
@click.pass_obj
def rebuild(context: Context, as_json: bool) -> None:
    """Make indexes and catalog again; answers go on meanwhile."""
    from memoryd import show

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.rebuild import rebuild as run

        return run(home, progress=progress)

    data = _rebuilt_by_daemon(context, as_json) if context.client.alive() else None
    if data is None:
        data = owned(context, here, as_json)
    emit(data, as_json, lambda: show.pairs("rebuilt", data))


def _rebuilt_by_daemon(context: Context, as_json: bool) -> dict[str, Any] | None:
    """The daemon's rebuild; None where its open views are gone from disk: then it is stopped, for us to do it."""
    try:
        return run_job(context, "rebuild", {}, as_json)
    except ToldError as error:
        if error.to_dict().get("code") != "views-lost":
            raise
    except (DaemonUnavailable, JobUnfinished):
        if context.client.alive():
            raise
    context.stop()
    return None


@click.command()
@click.option("--read-data", is_flag=True, help="Read and hash every stored byte.")
@click.option("--quick", is_flag=True, help="Look at files, footers and counts only.")
@json_option
@click.pass_obj
def check(context: Context, read_data: bool, quick: bool, as_json: bool) -> None:
    """Compare store, catalog, vault and indexes.

    Exit code 1 when something is wrong. Without an option every header, list and tree is read and compared with the
    indexes, but no content is unpacked.
    """
    if read_data and quick:
        raise InvalidInput("`--quick` and `--read-data` exclude each other.", next_step="Give one of them.")

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.check import check as run

        return run(home, read_data=read_data, quick=quick, progress=progress)

    arguments = {"read_data": read_data, "quick": quick}
    data = run_job(context, "check", arguments, as_json) if context.client.alive() else owned(context, here, as_json)
    emit(data, as_json, lambda: _show_findings(data))
    raise SystemExit(0 if data["clean"] else 1)


@click.command()
@click.option("--all", "everything", is_flag=True, help="Arrange every pack anew, arranged ones too.")
@json_option
@click.pass_obj
def optimize(context: Context, everything: bool, as_json: bool) -> None:
    """Pack the store tighter; nothing else changes.

    Small packs are merged and similar contents laid side by side.
    """

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.optimize import optimize as run

        return run(home, everything=everything, progress=progress)

    given = {"everything": everything}
    data = run_job(context, "optimize", given, as_json) if context.client.alive() else owned(context, here, as_json)
    emit(data, as_json, lambda: _show_optimized(data))
    raise SystemExit(1 if data["damaged"] else 0)


def _show_optimized(data: Mapping[str, Any]) -> None:
    if data["packs_replaced"]:
        click.echo(
            f"{counted(data['packs_before'], 'pack')} of {data['stored_before']:,} bytes became "
            f"{counted(data['packs_after'], 'pack')} of {data['stored_after']:,} bytes."
        )
    elif not data["stopped"]:
        click.echo("Nothing to do: no pack came since the last time.")
    if data["stopped"]:
        click.echo("Stopped before the end; what was finished stays.")
    for name in data["damaged"]:
        click.echo(f"{name} is damaged and was left as it is. Run `memoryd check --read-data`.")


def _show_findings(data: Mapping[str, Any]) -> None:
    for one in data["findings"]:
        click.echo(f"{one['code']}: {one['where']}: {one['message']}\n  Remedy: {one['remedy']}")
    click.echo("Clean." if data["clean"] else f"{counted(len(data['findings']), 'finding')}.")
