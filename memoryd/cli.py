"""What can a person or a script do with memoryd from a shell?

Every command takes `--json` (`serve` reports in JSON by itself).
Commands that need the daemon start it; `check`, `rebuild` and `doctor` also work without.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import click

from memoryd.cli_calibrate import calibrate
from memoryd.cli_care import check, config, doctor, optimize, rebuild, skill
from memoryd.cli_corpora import corpus, job
from memoryd.cli_eval import evaluate
from memoryd.cli_model import model
from memoryd.cli_repair import repair
from memoryd.cli_review import feedback, review
from memoryd.cli_search import search, why
from memoryd.cli_snapshots import TREE_COMMANDS
from memoryd.cli_upkeep import forget, gc
from memoryd.cli_vault import vault
from memoryd.cli_words import spoken
from memoryd.client import ToldError
from memoryd.errors import NotFound, VaultFileInvalid
from memoryd.records import MEMORY_TYPES
from memoryd.runtime import VERSION, home_directory
from memoryd.shell import Context, Memoryd, content_of, emit, json_option, scope_option

allow_secret_option = click.option(
    "--allow-secret", is_flag=True, help="Keep it although it seems to hold a secret; also with --confirm."
)
cite_option = click.option(
    "--cite",
    "citations",
    multiple=True,
    metavar="PATH[#L1-L5]",
    help="A file (and lines) of this project that shows it, named from the project's root; may be given several times.",
)
SHORT_ID = re.compile(r"[0-9a-f]{8}")


@click.group(cls=Memoryd, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--home", metavar="DIR", help="The home; default MEMORYD_HOME, else ~/.memoryd.")
@click.version_option(VERSION, prog_name="memoryd")
@click.pass_context
def main(ctx: click.Context, home: str | None) -> None:
    """Durable memory for coding agents: one daemon, one vault, one index for all sessions."""
    ctx.obj = Context(home)


@main.command()
@click.option("--detach", is_flag=True, help="Go to the background once ready.")
@click.option("--home", metavar="DIR", help="The home, as before the command.")
@click.pass_obj
def serve(context: Context, detach: bool, home: str | None) -> None:
    """Run the daemon of this home in the foreground."""
    from memoryd.server.daemon import serve as run

    raise SystemExit(run(home_directory(home, os.environ) if home else context.paths.home, detach=detach))


@main.command()
@json_option
@click.pass_obj
def start(context: Context, as_json: bool) -> None:
    """Start the daemon if none runs."""
    health = context.ask(lambda client: client.request("GET", "/healthz"))
    emit(health, as_json, lambda: click.echo(f"memoryd runs for {context.paths.home} (pid {health.get('pid')})."))


@main.command()
@json_option
@click.pass_obj
def stop(context: Context, as_json: bool) -> None:
    """Stop the daemon; returns once its process is gone."""
    pid = context.stop()
    if pid is None:
        emit({"stopped": False, "running": False}, as_json, lambda: click.echo("No daemon was running."))
    else:
        emit({"stopped": True, "running": False, "pid": pid}, as_json, lambda: click.echo("Stopped."))


@main.command()
@json_option
@click.pass_obj
def status(context: Context, as_json: bool) -> None:
    """Show memories, indexes, and what needs a person."""
    from memoryd import cli_status, show

    data = context.tool("memory_status", {})
    health = context.ask(lambda client: client.request("GET", "/healthz"))
    data["daemon"] = {name: value for name, value in health.items() if name != "status"}
    emit(data, as_json, lambda: show.sections(cli_status.sections(data)))


@main.command()
@click.argument("content")
@click.option("--type", "kind", required=True, type=click.Choice(MEMORY_TYPES), help="What kind of memory it is.")
@click.option("--title", help="One line; default: the first line of the content.")
@click.option("--tag", "tags", multiple=True, help="May be given several times.")
@click.option("--key", help="Names a fact of the scope that changes over time.")
@click.option("--force", metavar="REASON", help="Why to keep it although the same words are remembered.")
@cite_option
@allow_secret_option
@scope_option
@json_option
@click.pass_obj
def remember(
    context: Context,
    *,
    content: str,
    kind: str,
    title: str | None,
    tags: tuple[str, ...],
    key: str | None,
    force: str | None,
    citations: tuple[str, ...],
    allow_secret: bool,
    scope: str | None,
    as_json: bool,
) -> None:
    """Add a memory (`-` reads the content from standard input)."""
    from memoryd import show

    words = content_of(content)
    arguments: dict[str, Any] = {"content": words, "type": kind, "title": title, "key": key, "scope": scope}
    arguments |= {"tags": list(tags) or None, "citations": list(citations) or None}
    arguments |= {"force": force, "allow_secret": allow_secret or None}
    data = context.tool("memory_add", arguments)
    emit(data, as_json, lambda: show.added(data))


@main.command()
@click.argument("task")
@click.option("--max-tokens", type=click.IntRange(1), help="Budget of the brief; default 800.")
@scope_option
@json_option
@click.pass_obj
def recall(context: Context, task: str, max_tokens: int | None, scope: str | None, as_json: bool) -> None:
    """Show the brief that an agent gets when it starts on TASK."""
    from memoryd import show

    data = context.tool("memory_recall", {"task": task, "max_tokens": max_tokens, "scope": scope})
    emit(data, as_json, lambda: show.brief(data))


@main.command()
@click.argument("what")
@click.option("--offset", type=click.IntRange(0), help="First byte; default 0.")
@click.option("--limit", type=click.IntRange(1), help="At most this many bytes.")
@click.option("--metadata", is_flag=True, help="Facts and history instead of the content.")
@click.option("--as-of", metavar="TIME", help="Of a memory: what was in force then, such as 2026-05-01.")
@scope_option
@json_option
@click.pass_obj
def get(
    context: Context,
    what: str,
    offset: int | None,
    limit: int | None,
    metadata: bool,
    as_of: str | None,
    scope: str | None,
    as_json: bool,
) -> None:
    """Read one entry whole.

    WHAT is an id, `sha256:...`, `label/path` or `snapshot:NUMBER/path`.
    """
    from memoryd import show

    kind = "address" if what.startswith("sha256:") else "source" if "/" in what else "id"
    arguments = {kind: what, "offset": offset, "limit": limit, "metadata": metadata or None, "as_of": as_of}
    arguments["scope"] = scope
    data = _entry(context, "memory_get", what, arguments)
    if metadata:
        emit(data, as_json, lambda: show.pairs(str(data["title"]), data))
    else:
        emit(data, as_json, lambda: _show_content(data))


def _entry(context: Context, tool: str, what: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Call a tool on one entry; where nothing goes by its id because its file was broken by hand, that is said."""
    try:
        return context.tool(tool, arguments)
    except ToldError as error:
        if error.to_dict().get("code") != NotFound.code or not SHORT_ID.match(what):
            raise
        for fault in context.tool("memory_status", {})["vault"]["faulty"]:
            if fault["path"].endswith(f"-{what[:8]}.md"):
                message = f"{what[:12]} cannot be used: its file vault/{fault['path']} is broken. {fault['problem']}"
                told = {"message": message, "next_step": VaultFileInvalid.default_next_step}
                raise ToldError({**error.to_dict(), **told}) from None
        raise


def _show_content(data: Mapping[str, Any]) -> None:
    """The content alone on standard output; what else is to be said goes to standard error."""
    from memoryd import show

    if data.get("problem"):
        click.echo(f"Problem: {show.problem(data)}", err=True)
    for line in show.citation_lines(data):
        click.echo(line, err=True)
    click.echo(data["content"], nl=not data["content"].endswith("\n"), color=True)  # else click drops escapes
    if data["bytes"][1] < data["size"]:
        click.echo(
            f"Bytes {data['bytes'][0]} to {data['bytes'][1]} of {data['size']}. {spoken(data['next'])}", err=True
        )


@main.command()
@click.argument("memory")
@click.argument("content", required=False)
@click.option("--by", metavar="MEMORY", help="A newer memory that is there takes its place, instead of new words.")
@click.option("--confirm", help="The token that the preview printed.")
@cite_option
@allow_secret_option
@json_option
@click.pass_obj
def supersede(
    context: Context,
    memory: str,
    content: str | None,
    by: str | None,
    confirm: str | None,
    citations: tuple[str, ...],
    allow_secret: bool,
    as_json: bool,
) -> None:
    """Replace MEMORY by new words or a newer memory.

    The first call shows the plan, the same one with --confirm does it. `-` reads CONTENT from standard input.
    """
    arguments = {
        "id": memory,
        "content": None if content is None else content_of(content),
        "by": by,
        "citations": list(citations) or None,
        "confirm": confirm,
        "allow_secret": allow_secret or None,
    }
    data = _entry(context, "memory_supersede", memory, arguments)
    emit(data, as_json, lambda: _show_change(data))


@main.command()
@click.argument("memory")
@click.argument("reason")
@click.option("--confirm", help="The token that the preview printed.")
@allow_secret_option
@json_option
@click.pass_obj
def archive(context: Context, memory: str, reason: str, confirm: str | None, allow_secret: bool, as_json: bool) -> None:
    """Retire MEMORY without a successor.

    The first call shows the plan, the same one with --confirm does it.
    """
    arguments = {"id": memory, "reason": reason, "confirm": confirm, "allow_secret": allow_secret or None}
    data = _entry(context, "memory_archive", memory, arguments)
    emit(data, as_json, lambda: _show_change(data))


def _show_change(data: Mapping[str, Any]) -> None:
    click.echo(f"{data['outcome']}: {data['id'][:12]} {data['title']}")
    for line in data.get("diff", []):
        click.echo(f"  {line}")
    if "confirm" in data:
        click.echo(f"--confirm {data['confirm']}")
    click.echo(spoken(data["next"]))


for _command in (
    corpus,
    job,
    evaluate,
    calibrate,
    doctor,
    config,
    skill,
    rebuild,
    check,
    optimize,
    *TREE_COMMANDS,
    gc,
    forget,
    repair,
    review,
    feedback,
    vault,
    model,
    search,
    why,
):
    main.add_command(_command)
