"""How does a person learn why a search returned an entry, or did not?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from memoryd.cli_words import spoken
from memoryd.records import MEMORY_TYPES
from memoryd.shell import Context, emit, json_option, scope_option

MODES = ["hybrid", "keyword", "semantic"]
KINDS = ["memory", "document", "code"]


@click.command()
@click.argument("query")
@click.argument("entry", metavar="ID")
@click.option("--max-results", type=click.IntRange(1, 20), default=8, show_default=True, help="How many at most.")
@click.option("--mode", type=click.Choice(MODES), default="hybrid", show_default=True, help="As in the search.")
@click.option("--path-prefix", help="`label/` or `label/folder/`.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these kinds.")
@click.option("--type", "types", multiple=True, type=click.Choice(MEMORY_TYPES), help="Only memories of these types.")
@scope_option
@json_option
@click.pass_obj
def why(
    context: Context,
    *,
    query: str,
    entry: str,
    max_results: int,
    mode: str,
    path_prefix: str | None,
    kinds: tuple[str, ...],
    types: tuple[str, ...],
    scope: str | None,
    as_json: bool,
) -> None:
    """Say why a search for QUERY returns the entry ID, or not.

    ID is that of a memory or document, `sha256:...`, or `label/path`; the options are those of the search.
    """
    arguments = {
        "query": query,
        "id": entry,
        "max_results": max_results,
        "mode": mode,
        "path_prefix": path_prefix,
        "kinds": list(kinds) or None,
        "types": list(types) or None,
        "scope": scope,
    }
    data = context.tool("memory_why", arguments)
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
