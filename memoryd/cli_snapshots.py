"""How does a person keep the state of a directory, compare, restore, and add single files?"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from memoryd.records import encode_path
from memoryd.shell import Context, directory, emit, json_option, owned, person, run_job, scope_option

SHOWN_MOST = 20
"""So many left out or unsteady names are shown to people."""
PIECE = 1 << 20
_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("path", type=_PATH)
@click.option("--label", help="Names this series of states; default: the directory's name.")
@click.option("--scope", help="`global` or a project id; default: the project of PATH, else of this directory.")
@click.option("--full", is_flag=True, help="Read every file, also those whose size and times are as they were.")
@click.option("--partial", is_flag=True, help="Keep what can be read; what was left out is counted in the snapshot.")
@json_option
@click.pass_obj
def snapshot(
    context: Context, path: Path, label: str | None, scope: str | None, full: bool, partial: bool, as_json: bool
) -> None:
    """Keep the state of the directory PATH.

    Files (also those in `.git`), links, exec bits and empty directories.
    """
    data = _taken(context, path, label, scope, as_json, full=full, partial=partial)
    emit(data, as_json, lambda: _show_taken(data))


def _taken(
    context: Context,
    path: Path,
    label: str | None,
    scope: str | None,
    as_json: bool,
    *,
    full: bool = False,
    partial: bool = False,
) -> dict[str, Any]:
    here, named = directory(), _absolute(path)
    told: dict[str, Any] = {"label": label, "scope": scope, "full": full, "partial": partial}

    def inside(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.home import Caller
        from memoryd.operations.snapshots import take

        return take(home, Caller(here), path=named, progress=progress, **told)

    if not context.client.alive():
        return owned(context, inside, as_json)
    return run_job(context, "snapshot", {"path": encode_path(os.fsencode(named)), "directory": here, **told}, as_json)


def _absolute(path: Path) -> str:
    """A path as the daemon sees it; links in it are left to the daemon."""
    return os.path.abspath(path)  # noqa: PTH100 - `.` and `..` go, links stay


def _show_taken(data: Mapping[str, Any]) -> None:
    click.echo(
        f"{data['outcome']}: {data['seq']} {data['label']}, {data['files']} files, {data['size']} bytes, "
        f"root {data['root'][:12]} ({data['read_files']} read, {data['reused_files']} unchanged)"
    )
    for name, text in (
        ("unread", "could not be read"),
        ("skipped", "not kept"),
        ("unsteady", "changed while it was read"),
    ):
        for one in data[name][:SHOWN_MOST]:
            what = one if isinstance(one, str) else f"{one['path']}: {one['reason']}"
            click.echo(f"  {text}: {what}")
        if len(data[name]) > SHOWN_MOST:
            click.echo(f"  {text}: {len(data[name]) - SHOWN_MOST} more")


@click.command()
@click.option("--label", help="Only those of one label.")
@scope_option
@json_option
@click.pass_obj
def snapshots(context: Context, label: str | None, scope: str | None, as_json: bool) -> None:
    """List the snapshots, newest first."""
    from memoryd import show
    from memoryd.operations.kept import listed

    data = _asked(context, "snapshot_list", listed, {"label": label, "scope": scope}, as_json)
    columns = ["seq", "label", "created", "files", "size", "left_out", "scope", "root", "source"]

    def human() -> None:
        lines = [[one[name][:12] if name == "root" else one[name] for name in columns] for one in data["snapshots"]]
        show.rows(columns, lines)
        if data["elsewhere"]:
            click.echo(f"{data['elsewhere']} more in other scopes: call it there, or name one with --scope.")

    emit(data, as_json, human)


def _asked(context: Context, name: str, operation: Any, given: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    """The answer of a running daemon, else of the operation in this process."""
    arguments = {key: value for key, value in given.items() if value not in (None, ())}
    if context.client.alive():
        return context.tool(name, arguments)

    def inside(home: Any, _progress: Any) -> dict[str, Any]:
        from memoryd.operations.home import Caller

        answer: dict[str, Any] = operation(home, Caller(directory()), **arguments)
        return answer

    return owned(context, inside, as_json)


@click.command()
@click.argument("since")
@click.argument("until", required=False)
@click.option("--path", "path_prefix", help="Only what lies at or below this path.")
@click.option("--exit-code", is_flag=True, help="Exit code 1 where they differ.")
@scope_option
@json_option
@click.pass_obj
def diff(
    context: Context,
    since: str,
    until: str | None,
    path_prefix: str | None,
    exit_code: bool,
    scope: str | None,
    as_json: bool,
) -> None:
    """Show what changed between two snapshots.

    UNTIL is by default the newest of the same label. A snapshot is named by its label (the newest of it), `label@1`
    (its first; `label@-2`: the last but one), its number, or the beginning of its root.
    """
    from memoryd.operations.changes import diff as run

    given = {"since": since, "until": until, "path_prefix": path_prefix, "scope": scope}
    data = _asked(context, "snapshot_compare", run, given, as_json)
    emit(data, as_json, lambda: _show_diff(data))
    if exit_code and not data["same"]:
        raise SystemExit(1)


def _show_diff(data: Mapping[str, Any]) -> None:
    lines = [(one["path"], f"A {_named(one)}") for one in data["added"]]
    lines += [(one["path"], f"D {_named(one)}") for one in data["removed"]]
    lines += [(one["path"], f"M {_named(one)}{_kinds(one)}") for one in data["modified"]]
    lines += [(one["path"], f"R {one['old_path']} -> {_named(one)}{_moved(one)}") for one in data["renamed"]]
    for _path, line in sorted(lines):
        click.echo(line)
    counts = ", ".join(f"{number} {name}" for name, number in data["counts"].items())
    before, after = (f"{one['label']} ({one['seq']})" for one in (data["before"], data["after"]))
    click.echo(f"{before} -> {after}: {counts}{'; the list is cut' if data['cut'] else ''}")
    for one in (data["before"], data["after"]):
        if one["left_out"]:
            click.echo(f"{one['label']} ({one['seq']}) lacks {one['left_out']} entries that could not be read.")


def _named(one: Mapping[str, Any]) -> str:
    return f"{one['path']}/" if one["kind"] == "directory" else str(one["path"])


def _kinds(one: Mapping[str, Any]) -> str:
    return f" ({one['old_kind']} -> {one['kind']})" if "old_kind" in one else ""


def _moved(one: Mapping[str, Any]) -> str:
    from memoryd.store.renames import COUNTED_MOST

    if one["kind"] == "directory":
        return f" ({one['entries']}{' or more' if one['entries'] >= COUNTED_MOST else ''} entries)"
    return _kinds(one) if one["shared"] == 1.0 else f" ({one['shared']:.0%} alike)"


@click.command()
@click.argument("snapshot_name", metavar="SNAPSHOT")
@click.argument("target", type=_PATH)
@click.option("--path", type=_PATH, help="Only what the snapshot holds at this path.")
@scope_option
@json_option
@click.pass_obj
def restore(
    context: Context, snapshot_name: str, target: Path, path: Path | None, scope: str | None, as_json: bool
) -> None:
    """Write SNAPSHOT to TARGET, a new or empty directory.

    Every byte is verified. Exit code 1 where damaged contents had to be left out; they are named.
    """
    here, place = directory(), _absolute(target)

    def inside(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.home import Caller
        from memoryd.operations.restore import restore as run

        part = None if path is None else os.fspath(path)
        return run(home, Caller(here), snapshot=snapshot_name, target=place, path=part, scope=scope, progress=progress)

    if context.client.alive():
        given = {
            "snapshot": snapshot_name,
            "target": encode_path(os.fsencode(place)),
            "path": None if path is None else encode_path(os.fsencode(path)),
            "scope": scope,
            "directory": here,
        }
        data = run_job(context, "restore", given, as_json)
    else:
        data = owned(context, inside, as_json)
    emit(data, as_json, lambda: _show_restored(data))
    raise SystemExit(0 if data["ok"] else 1)


def _show_restored(data: Mapping[str, Any]) -> None:
    click.echo(
        f"Restored {data['files']} files, {data['links']} links, {data['directories']} directories "
        f"({data['size']} bytes) to {data['target']}."
    )
    for one in data["damaged"][:SHOWN_MOST]:
        click.echo(f"  left out: {one['path']}: {one['reason']}")
    if data["damaged_count"] > SHOWN_MOST:
        click.echo(f"  left out: {data['damaged_count'] - SHOWN_MOST} more")


@click.command()
@click.argument("what", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--name", help="The artifact's name, such as `build/log.txt`; default: the file's.")
@click.option("--tag", "tags", multiple=True, help="May be given several times.")
@click.option("--label", help="For a directory: the snapshot's label.")
@click.option(
    "--allow-forgotten",
    is_flag=True,
    help="Store a content that was erased with `memoryd forget`; asks at the terminal and stops the daemon.",
)
@click.option("--redact", is_flag=True, help="Replace each secret by `[redacted: <kind>]` first; text only.")
@scope_option
@json_option
@click.pass_obj
def add(
    context: Context,
    what: Path,
    name: str | None,
    tags: tuple[str, ...],
    label: str | None,
    allow_forgotten: bool,
    redact: bool,
    scope: str | None,
    as_json: bool,
) -> None:
    """Keep a file as an artifact, a directory as a snapshot.

    `-` is standard input, with --name. Text is found by search from then on; the same bytes under the same name are one
    entry.
    """
    if str(what) != "-" and what.is_dir():
        if name is not None or tags or allow_forgotten or redact:
            raise click.UsageError("A directory takes --label, not --name, --tag, --redact or --allow-forgotten.")
        data = _taken(context, what, label, scope, as_json)
        emit(data, as_json, lambda: _show_taken(data))
        return
    if label is not None:
        raise click.UsageError("A file takes --name, not --label.")
    if str(what) == "-" and not name:
        raise click.UsageError("Standard input has no name: give --name.")
    if str(what) == "-" and allow_forgotten:
        raise click.UsageError("A person has to answer on standard input: give a file with --allow-forgotten.")
    given: dict[str, Any] = {"name": name, "tags": list(tags) or None, "scope": scope}
    if redact:
        given["redact"] = True
    data = (_let_in if allow_forgotten else _added)(context, what, given, as_json)
    emit(data, as_json, lambda: _show_added(data))


def _let_in(context: Context, what: Path, given: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    """Add a file whatever was erased before; in this process alone, so that no session can ask a daemon for it."""
    person(f"{what} is stored, found and kept again, even if a person had it erased.", "allow")

    def inside(home: Any, _progress: Any) -> dict[str, Any]:
        from memoryd.operations.artifacts import add_file
        from memoryd.operations.home import Caller

        return add_file(home, Caller(directory()), path=_absolute(what), allow_forgotten=True, **given)

    context.stop()
    return owned(context, inside, as_json)


def _added(context: Context, what: Path, given: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    from memoryd.operations.artifacts import add_file

    if str(what) != "-":
        return _asked(context, "artifact_keep", add_file, {"path": _absolute(what), **given}, as_json)
    with tempfile.NamedTemporaryFile(prefix="memoryd-") as spool:
        while piece := sys.stdin.buffer.read(PIECE):
            spool.write(piece)
        spool.flush()
        return _asked(context, "artifact_keep", add_file, {"path": spool.name, **given}, as_json)


def _show_added(data: Mapping[str, Any]) -> None:
    found = "found by search" if data["findable"] else "kept, not searched"
    click.echo(f"{data['outcome']}: {data['source']} {data['size']} bytes, {found}")
    click.echo(f"  {data['address']}")
    if "redacted" in data:
        kinds = ", ".join(f"{number} {kind}" for kind, number in data["redacted"]["kinds"].items())
        click.echo(f"  {data['redacted']['count']} redacted{': ' if kinds else ''}{kinds}")


TREE_COMMANDS = (snapshot, snapshots, diff, restore, add)
