"""How does a person set up the vault, see how it stands, and share it with another machine?"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memoryd.cli_words import counted
from memoryd.errors import ConfigError, InvalidInput, VaultNotARepository
from memoryd.shell import Context, emit, json_option, run_job

if TYPE_CHECKING:
    from memoryd.config import LoadedConfig

Lines = list[tuple[str, str]]


@click.group()
def vault() -> None:
    """The memories' git repository: set up, look, share."""


@vault.command("init")
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--remote", metavar="URL", help="Share the vault through this repository, from now on with `sync`.")
@json_option
@click.pass_obj
def init(context: Context, path: Path | None, remote: str | None, as_json: bool) -> None:
    """Make the vault, in the home or at PATH.

    An existing clone at PATH is taken over.

    PATH goes into config.json as `vault.path`, and a running daemon is restarted. Memories are never left behind: a
    vault that holds some is moved by hand first (the error says how).
    """
    from memoryd.sources.remote import checked_address

    address = None if remote is None else checked_address(remote)  # a job's arguments are kept
    if path is not None:
        _place(context, path)
    synced = None if address is None else run_job(context, "vault-connect", {"url": address}, as_json)
    data: dict[str, Any] = {"synced": synced}
    data |= context.tool("vault_status", {})

    def human() -> None:
        click.echo(f"The vault is {data['path']}, branch {data['branch'] or 'none'}.")
        if data["synced"]:
            _show_synced(data["synced"])

    emit(data, as_json, human)


@vault.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show how the vault stands and what needs a person.

    Branch, remote, edits, conflicts, hooks, and each file that does not read as a memory.
    Exit code 1 where the vault takes no memories now (a merge under way, no branch, conflicts).
    """
    from memoryd import show

    data = context.tool("vault_status", {})
    emit(data, as_json, lambda: show.sections(sections(data)))
    raise SystemExit(0 if data["ready"] else 1)


@vault.command()
@json_option
@click.pass_obj
def sync(context: Context, as_json: bool) -> None:
    """Fetch, merge and push.

    Then this vault and its remote hold the same. Never a rebase, never a force: the ids of commits stay. Where both
    sides changed one file so that only a person can say what holds, nothing is merged and both sides are named.
    """
    data = run_job(context, "vault-sync", {}, as_json)
    emit(data, as_json, lambda: _show_synced(data))


def _place(context: Context, path: Path) -> None:
    """Write `vault.path` after everything was checked; the daemon is stopped, the next command starts it there."""
    from memoryd.config import LoadedConfig, config_path, load_config, parse_config
    from memoryd.files import Files
    from memoryd.sources import corpora

    target = config_path(context.root, os.environ)
    before = load_config(target)
    place = Path(os.path.realpath(path.expanduser().absolute()))
    _require_fit(context, before, place)
    given = json.loads(target.read_bytes()) if target.exists() else {}
    given["vault"] = {**given.get("vault", {}), "path": str(place)}
    raw = (json.dumps(given, indent=2, ensure_ascii=False) + "\n").encode()
    after = LoadedConfig(parse_config(raw, str(target)), target, before.sha256)
    corpora.validate(after.config.corpora, base=target.parent, reserved=[context.root, place])
    context.stop()
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        Files().replace(target, raw, owner="config")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror}.", path=str(target)) from error


def _require_fit(context: Context, before: LoadedConfig, place: Path) -> None:
    """Raises VaultNotARepository, InvalidInput where the folder cannot be the vault, or would leave memories behind."""
    from memoryd.files import Files
    from memoryd.sources.git import Git

    old = Path(os.path.realpath(before.vault_folder(context.root)))
    if old == place:
        return
    entries = any(place.iterdir()) if place.is_dir() else place.exists()
    if entries and not (place / ".git").exists():
        raise VaultNotARepository(
            f"{place} is not empty and no git repository.", next_step="Name a new or empty folder, or a clone."
        )
    held = Git(old, timeout=20, files=Files()).head() if (old / ".git").exists() else None
    if held is None:
        return
    new = Git(place, timeout=20, files=Files())
    known = entries and new.run(["merge-base", "--is-ancestor", held, "HEAD"], accept=(0, 1, 128)).code == 0
    if not known:
        raise InvalidInput(
            f"The vault {old} holds memories that {place} lacks.",
            next_step=f"Move it: `memoryd stop`, then `mv {old} {place}`, then this command again.",
        )


def sections(data: Mapping[str, Any]) -> dict[str, Lines]:
    """Named lines under their titles, in the order in which a person asks."""
    return {
        "Vault": _about(data),
        "Edited, not committed": [(one["state"], one["path"]) for one in data["edited"]] or [("none", "")],
        "Problems": list(_problems(data)) or [("none", "")],
    }


def _about(data: Mapping[str, Any]) -> Lines:
    remote = data["remote"]
    lines = [
        ("folder", data["path"]),
        ("branch", data["branch"] or "none: HEAD is detached, no memory is taken; `git switch NAME` in the vault"),
        ("commit", (data["commit"] or "none yet")[:12]),
    ]
    if remote is None:
        lines.append(("remote", "none: `memoryd vault init --remote URL` connects one"))
    else:
        apart = "never fetched"
        if remote["behind"] is not None:
            apart = f"{counted(remote['ahead'], 'commit')} to send, {remote['behind']} to take in"
        lines += [("remote", f"{remote['name']}/{remote['branch']} at {remote['url']}"), ("apart", apart)]
    return [*lines, ("hooks", ", ".join(data["hooks"]) or "none")]


def _problems(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What needs a person, each with where it is."""
    if data["under_way"]:
        yield "under way", f"a {data['under_way']}: finish or abort it with git, no memory is taken until then"
    for path in data["conflicts"]:
        yield "conflict", f"{path}: keep what holds, `git add` it, `git commit`"
    for one in data["unreadable"]:
        yield "file", f"{one['path']}:{one['line']}"
        yield "", one["problem"]
        if "add" in one:
            yield "", "to make it a memory, add at its top (after its `---`, if it has one):"
            yield from (("", f"    {line}") for line in one["add"])
    for one in data["duplicates"]:
        yield "twice", f"the id {one['id'][:12]} stands in {' and '.join(one['paths'])}: remove one"
    for one in data["forks"]:
        yield "two in force", f"{' and '.join(id[:12] for id in one['ids'])} revise one fact: supersede or archive one"
    for lock in data["locks"]:
        yield "lock", f"{lock}: a git is at work, or died"
    yield from (("notice", text) for text in data["notices"])


def _show_synced(data: Mapping[str, Any]) -> None:
    if data["outcome"] == "up to date":
        click.echo(f"Up to date with {data['remote']} at {data['url']}.")
    else:
        taken, sent = counted(data["received"], "commit"), counted(data["sent"], "commit")
        counts = ", ".join(f"{number} {name}" for name, number in data["memories"].items())
        click.echo(f"Synced with {data['remote']} at {data['url']}: {taken} taken in, {sent} sent. Files: {counts}.")
    for path in data["settled"]:
        click.echo(f"Added or changed alike on both sides, the earlier file stands: {path}")
    for path in data["uncommitted"]:
        click.echo(f"Not sent, because it is not committed: {path}")
    for one in data["forks"]:
        ids = " and ".join(id[:12] for id in one["ids"])
        click.echo(f"Two revisions of one fact are in force, {ids}: supersede or archive one.")
