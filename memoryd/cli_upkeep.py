"""How does a person get room back, and how does a secret leave this home for good?"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from typing import Any

import click

from memoryd.errors import InvalidInput, PersonNeeded
from memoryd.shell import Context, emit, json_option, owned, person, run_job
from memoryd.visible import visible


@click.command()
@click.option("--dry-run", is_flag=True, help="Count only; nothing is changed.")
@click.option("--now", is_flag=True, help="Without the grace period; asks at the terminal and stops the daemon.")
@json_option
@click.pass_obj
def gc(context: Context, dry_run: bool, now: bool, as_json: bool) -> None:
    """Give room back that nothing in force needs.

    Former states and snapshots past `retention` expire; what nothing needs is condemned first, and its bytes go in a
    later run, after `retention.grace_hours`. Exit code 1 where something was left undone.
    """

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.collect import gc as run

        return run(home, dry_run=dry_run, now=now, progress=progress)

    if now and not dry_run:
        person("What nothing in force needs is removed at once, without the grace period.", "collect")
        context.stop()
    given = {"dry_run": dry_run, "now": now and dry_run}
    data = run_job(context, "gc", given, as_json) if context.client.alive() else owned(context, here, as_json)
    emit(data, as_json, lambda: _show_gc(data))
    raise SystemExit(0 if data.get("ok", False) else 1)


def _show_gc(data: Mapping[str, Any]) -> None:
    if data["stopped"] and "live" not in data:
        click.echo("Stopped before anything was removed.")
        return
    for name in ("live", "condemned", "due" if data["dry_run"] else "dropped"):
        sums = data[name]
        click.echo(f"{name}: {sums['contents']} contents, {sums['chunks']} chunks, {sums['bytes']:,} bytes")
    expired = data["expired"]
    click.echo(f"expired: {expired['documents']} former states, {expired['snapshots']} snapshots")
    if not data["dry_run"]:
        click.echo(f"{data['rewritten']} packs written again, {data['freed_bytes']:,} bytes free again")
        click.echo(f"{data['embeddings']} kept vectors of texts that nothing holds any more dropped")
    for problem in (*data.get("unreadable", ()), *filter(None, [data.get("disk_full")])):
        click.echo(f"Left: {problem}")


@click.command()
@click.argument("what", nargs=-1)
@click.option(
    "--text", "ask_text", is_flag=True, help="Ask for the secret itself (hidden) and forget all that holds it."
)
@click.option("--reason", default="forgotten", show_default=True, help="Kept with the tombstone; no secret.")
@json_option
@click.pass_obj
def forget(context: Context, what: tuple[str, ...], ask_text: bool, reason: str, as_json: bool) -> None:
    """Erase contents or memories for good.

    WHAT is `sha256:...`, a memory's id or `label/path`. `snapshot:NUMBER` (or `snapshot:LABEL@N`) gives up the record
    of a snapshot; no file's bytes are looked for then.

    Shows what holds them, asks at the terminal, stops the daemon, and removes them from packs, vault, indexes, caches
    and logs. A memory goes with all its states. Only git's history still holds its file; the answer says how to purge
    that.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PersonNeeded("Only a person at a terminal can erase; nothing was changed.")
    text = getpass.getpass("The secret (not shown): ", sys.stderr) if ask_text else None
    if not what and not text:
        raise InvalidInput("Name what is to be forgotten.", next_step="Give an address, an id or `label/path`.")

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.erasure import plan, shown
        from memoryd.operations.forget import run

        made = plan(home, what, text)
        _show_plan(shown(home, made))
        person("This cannot be undone.", f"forget {len(made.addresses) + len(made.snapshots)}")
        return run(home, made, reason=reason, progress=progress)

    context.stop()
    data = owned(context, here, as_json)
    emit(data, as_json, lambda: _show_forgotten(data))
    raise SystemExit(1 if data["remains"] else 0)


def _show_plan(plan: Mapping[str, Any]) -> None:
    def say(line: str) -> None:
        click.echo(visible(line), err=True)

    for one in plan["contents"]:
        say(f"{one['address']}  {'already gone' if one['size'] is None else format(one['size'], ',') + ' bytes'}")
    for one in plan["memories"]:
        say(f"memory: {one['source']}  {one['title']} (its file, with all its states)")
        for other in one["other_revisions"]:
            say(f"  NOT forgotten, another revision of the same fact: {other}")
    for name, title in (("documents", "document"), ("former", "in the history of"), ("snapshots", "named by snapshot")):
        for one in plan[name]:
            say(f"{title}: {one}")
    for one in plan["buried"]:
        say(f"snapshot given up: {one}")
    for one in plan["sharing"]:
        say(f"keeps a piece of it, because it holds the same bytes: {one} (forget it too, if it says the secret)")
    for one in plan["quarantine"]:
        say(f"removed from quarantine: {one}")
    say(f"{plan['packs']} packs are written again; {plan['passages']} embedded passages, all indexes are made anew.")


def _show_forgotten(data: Mapping[str, Any]) -> None:
    rows = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in data["rows"].items())
    click.echo(
        f"Forgotten: {len(data['forgotten'])} contents. {data['packs']} packs written again; rows removed: {rows}."
    )
    for one in data["snapshots"]:
        click.echo(f"given up: snapshot {one['seq']} {one['label']}; what only it needs goes with the next collections")
    for name, lines in data["logs"].items():
        click.echo(f"{lines} lines replaced in {name}")
    for name in data["set_aside"]:
        click.echo(f"removed: {name}")
    for one in data["remains"]:
        click.echo(f"STILL THERE: {one}")
    if data["git"]["purge"]:
        click.echo(
            "git's history still holds files or messages (and copies of the vault may). To purge it, with the daemon"
            " stopped:"
        )
        for command in data["git"]["purge"]:
            click.echo(f"  {command}")
