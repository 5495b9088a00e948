"""How does a person see what a repair would do, and let it do it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from memoryd.cli_words import counted
from memoryd.shell import Context, emit, json_option, owned, person, run_job

NAMED_MOST = 20


@click.command()
@click.option("--apply", "apply", is_flag=True, help="Do it; asks at the terminal and stops the daemon.")
@json_option
@click.pass_obj
def repair(context: Context, apply: bool, as_json: bool) -> None:
    """Show what is damaged; with --apply, mend it.

    Damaged packs are kept in store/quarantine and replaced by what is sound of them; what still exists in the vault,
    in a corpus, in git's history or in quarantine is stored again; catalog and indexes follow. It may be interrupted
    at any time. Exit code 1 while something is left: a plan that was not applied, or content that exists nowhere.
    """

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.repair import repair as run

        return run(home, apply=apply, progress=progress)

    if apply:
        person("Damaged packs are replaced by what is sound of them (their files stay in quarantine).", "repair")
        context.stop()
    alive = not apply and context.client.alive()
    data = run_job(context, "repair", {}, as_json) if alive else owned(context, here, as_json)
    emit(data, as_json, lambda: _show(data))
    raise SystemExit(0 if data["ok"] else 1)


def _show(data: Mapping[str, Any]) -> None:
    for one in data["steps"]:
        click.echo(f"{one['code']}: {one['where']}: {one['message']}\n  {_did(data, one['remedy'])}")
    for one in data["left"]:
        click.echo(f"LEFT {one['code']}: {one['where']}: {one['message']}\n  {one['remedy']}")
    _show_affected(data)
    if data["restored_records"] or data["lost_records"]:
        click.echo(f"Records: {data['restored_records']} known to the catalog, {data['lost_records']} lost.")
    lost = data["lost"]["contents"]
    for address in lost[:NAMED_MOST]:
        click.echo(f"LOST {address}")
    if lost or data["lost"]["nodes"]:
        click.echo(f"{counted(len(lost), 'content')} and {counted(data['lost']['nodes'], 'tree node')} exist nowhere.")
        click.echo(f"  Remedy: {data['lost']['remedy']}")
    for one in data.get("findings", ()):
        click.echo(f"{one['code']}: {one['where']}: {one['message']}\n  Remedy: {one['remedy']}")
    if data["stopped"]:
        click.echo("Stopped: give the command again.")
    elif data["nothing_to_do"]:
        click.echo("Nothing to do.")
    elif not data["applied"]:
        click.echo("Nothing was changed; `memoryd repair --apply` does it.")


def _did(data: Mapping[str, Any], remedy: str) -> str:
    return remedy if data["applied"] else f"To be done: {remedy}"


def _show_affected(data: Mapping[str, Any]) -> None:
    affected = data["affected"]
    for one in affected["memories"][:NAMED_MOST]:
        click.echo(f"memory: {one['path']}  {one['title']}" + (" (a former state)" if one["in_history_only"] else ""))
    for one in affected["documents"][:NAMED_MOST]:
        click.echo(f"document: {one['path']}" + (" (a former state)" if one["in_history_only"] else ""))
    for one in affected["snapshots"][:NAMED_MOST]:
        click.echo(f"snapshot: {one['label']} (number {one['seq']}): {', '.join(one['paths'][:5])}")
