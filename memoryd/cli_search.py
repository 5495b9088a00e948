"""How does a person search, and learn why a search returned an entry, or did not?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from memoryd.cli_words import spoken
from memoryd.records import DOCUMENT_KINDS, MEMORY_TYPES, SEARCH_MODES
from memoryd.shell import Context, emit, json_option, scope_option

Command = Callable[..., None]


def _wanted(command: Command) -> Command:
    """The options that say what is looked for, the same for both commands."""
    for option in (
        scope_option,
        click.option(
            "--type", "types", multiple=True, type=click.Choice(MEMORY_TYPES), help="Only memories of these types."
        ),
        click.option("--kind", "kinds", multiple=True, type=click.Choice(DOCUMENT_KINDS), help="Only these kinds."),
        click.option("--path-prefix", help="`label/` or `label/folder/`."),
        click.option(
            "--mode",
            type=click.Choice(SEARCH_MODES),
            default=SEARCH_MODES[0],
            show_default=True,
            help="By words, meaning, or both.",
        ),
        click.option(
            "--max-results", type=click.IntRange(1, 20), default=8, show_default=True, help="How many at most."
        ),
    ):
        command = option(command)
    return command


def _arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options as a tool takes them: what was not given is absent."""
    return {name: list(value) or None if isinstance(value, tuple) else value for name, value in given.items()}


@click.command()
@click.argument("query")
@_wanted
@click.option("--explain", is_flag=True, help="Ranks and scores per leg, timings.")
@json_option
@click.pass_obj
def search(context: Context, /, *, query: str, explain: bool, as_json: bool, **given: Any) -> None:
    """Search memories and corpora."""
    from memoryd import show

    data = context.tool("memory_search", {"query": query, "explain": explain or None, **_arguments(given)})
    emit(data, as_json, lambda: show.hits(data))


@click.command()
@click.argument("query")
@click.argument("entry", metavar="ID")
@_wanted
@json_option
@click.pass_obj
def why(context: Context, /, *, query: str, entry: str, as_json: bool, **given: Any) -> None:
    """Say why a search for QUERY returns the entry ID, or not.

    ID is that of a memory or document, `sha256:...`, or `label/path`; the options are those of the search.
    """
    data = context.tool("memory_why", {"query": query, "id": entry, **_arguments(given)})
    emit(data, as_json, lambda: _show(data))


def _show(data: Mapping[str, Any]) -> None:
    if "source" in data:
        click.echo(f"{data['source']}: {data['title']}")
    click.echo(f"{'Returned' if data['returned'] else 'Not returned'} ({data['reason']}). {data['message']}")
    for name, leg in data.get("legs", {}).items():
        click.echo(f"  {name}: {_of_leg(leg)}")
    if data["next"]:
        click.echo(f"Next: {spoken(data['next'])}")


def _of_leg(leg: Mapping[str, Any]) -> str:
    if not leg["ran"]:
        return "did not run"
    if not leg["indexed"]:
        return "has not taken it in yet"
    return "not found" if leg["rank"] is None else f"no. {leg['rank']} (score {leg['score']:.3f})"
