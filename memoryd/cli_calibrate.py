"""How does a person measure where likeness begins to mean something, with this model and in this vault?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from memoryd.cli_words import counted
from memoryd.records import encode_path
from memoryd.shell import Context, emit, json_option, owned, run_job

TITLES = {"words": "words alone", "cosine": "cosine alone", "both": "both"}


@click.command()
@click.option(
    "--pairs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON Lines of a, b and label (same, revision, distinct, unrelated), measured besides.",
)
@json_option
@click.pass_obj
def calibrate(context: Context, pairs: Path | None, as_json: bool) -> None:
    """Measure what likeness of memories means here.

    From two cuts on a memory is called near another one, or proposed as its revision; they are kept. Measured are
    labelled pairs that memoryd brings along and the memories in force. The cuts only flag and propose; a memory is
    withheld only where the same words are remembered, whatever the cuts.
    """
    named = None if pairs is None else pairs.absolute()

    def here(home: Any, progress: Any) -> dict[str, Any]:
        from memoryd.operations.calibrate import calibrate as run

        return run(home, pairs=named, progress=progress)

    if context.client.alive():
        given = {} if named is None else {"pairs": encode_path(os.fsencode(named))}
        data = run_job(context, "calibrate", given, as_json)
    else:
        data = owned(context, here, as_json)
    emit(data, as_json, lambda: _show(data))


def _show(data: Mapping[str, Any]) -> None:
    for name, title in (("pairs", "pairs of memoryd"), ("file", "pairs of the file")):
        if name in data:
            _show_figures(title, data[name])
    _show_vault(data["vault"])
    cuts = data["cuts"]
    gap = "" if cuts["gap"] else "; no gap between the classes"
    click.echo(f"Cuts of likeness: similar {cuts['similar']:.3f}, revision {cuts['revision']:.3f}{gap}.")
    click.echo(data["next"])


def _show_figures(title: str, told: Mapping[str, Any]) -> None:
    from memoryd import show

    counts = ", ".join(
        f"{number} {label} ({told['withheld'][label]} withheld)" for label, number in told["count"].items()
    )
    click.echo(f"{title}: {counts}")
    known = {name: one for name, one in told["measures"].items() if one is not None}
    if known:
        head = ["half not chosen on", "AUC", "cut", "revisions", "false alarms"]
        show.rows(head, [[TITLES[name], *_figure(one)] for name, one in known.items()])
    else:
        click.echo("Too few of them to measure: each half needs revisions and distinct ones.")
    grammar = told["grammar"]
    click.echo(
        f"statements by grammar: {grammar['found']} of {counted(grammar['revisions'], 'revision')} found,"
        f" {grammar['mistaken']} of {grammar['distinct']} distinct ones mistaken"
    )


def _figure(one: Mapping[str, Any]) -> list[str]:
    return [
        f"{one['auc']:.3f}",
        f"{one['cut']:.3f}{' (gap)' if one['gap'] else ''}",
        f"{one['revisions']:.1%}",
        f"{one['false_alarms']:.1%}",
    ]


def _show_vault(vault: Mapping[str, Any]) -> None:
    measured = counted(vault["measured"], "memory", "memories")
    click.echo(f"vault: {measured} of {vault['in_force']} in force measured")
    if not vault["measured"]:
        return
    if vault["neighbours"]["p50"] is not None:
        spread = ", ".join(f"{name} {value:.3f}" for name, value in vault["neighbours"].items())
        click.echo(f"nearest neighbours: {spread}; flagged {vault['flagged']:.1%}, proposed {vault['proposed']:.1%}")
    tried = {name: one for name, one in vault["readds"].items() if one["made"]}
    again = ", ".join(f"{name} {one['caught']} of {one['made']}" for name, one in tried.items())
    click.echo(f"written once more with other: {again} caught")
    for one, other in vault["same_words"]:
        click.echo(f"the same words: {one[:12]} and {other[:12]}")
