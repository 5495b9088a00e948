"""How does a person see, fetch, check and choose the embedding model?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from memoryd.shell import Context, emit, json_option

if TYPE_CHECKING:
    from memoryd.config import LoadedConfig

NAMES = ["embedded", "bge-m3"]


@click.group()
def model() -> None:
    """The embedding model: see, fetch, check, choose."""


@model.command("list")
@json_option
@click.pass_obj
def list_models(context: Context, as_json: bool) -> None:
    """Show the models, which are usable, and which serves and why."""
    from memoryd.operations import weights

    data = weights.listed(_loaded(context), context.root)
    emit(data, as_json, lambda: _show_list(data))


@model.command()
@click.argument("name", type=click.Choice(["bge-m3"]))
@json_option
@click.pass_obj
def pull(context: Context, name: str, as_json: bool) -> None:
    """Download a model (2.3 GB) into its folder.

    An interrupted download is gone on with. Nothing else in memoryd downloads anything; a folder that is copied by
    hand (`model.path`, default `models/bge-m3` in the home) does as well.
    """
    from memoryd.operations import weights

    data = weights.pull(_loaded(context), context.root)
    emit(data, as_json, lambda: click.echo(f"{name} lies whole in {data['folder']}. Next: {data['next']}"))


@model.command()
@click.argument("name", type=click.Choice(NAMES), required=False)
@json_option
@click.pass_obj
def verify(context: Context, name: str | None, as_json: bool) -> None:
    """Read all files of a model, load it, and try it on sentences.

    It must tell paraphrases from unrelated ones.

    Exit code 1 where a file is missing or cut, or the weights separate nothing. NAME: default the one in force.
    """
    from memoryd.operations import weights
    from memoryd.operations.home import chosen_model

    loaded = _loaded(context)
    data = weights.verified(loaded, context.root, name or chosen_model(loaded, context.root).identity.kind)
    emit(data, as_json, lambda: click.echo(_proved(data)))


@model.command()
@click.argument("name", type=click.Choice(["auto", *NAMES]))
@json_option
@click.pass_obj
def use(context: Context, name: str, as_json: bool) -> None:
    """Make NAME the model in force.

    It is verified first, then config.json is changed and a running daemon is stopped. The next start builds a new
    generation of indexes in the background; embeddings of models used before are kept.
    """
    from memoryd.operations import weights
    from memoryd.operations.home import chosen_model

    loaded = _loaded(context)
    raw = weights.named_in(loaded, name)
    if name != "auto":
        weights.verified(loaded, context.root, name)
    stopped = context.stop() is not None
    weights.write_config(loaded.path, raw)
    spec = chosen_model(_loaded(context), context.root)
    data: dict[str, Any] = {
        "configured": name,
        "in_force": spec.identity.kind,
        "model": spec.identity.name,
        "why": spec.why,
    }
    data |= {"config": str(loaded.path), "stopped": stopped}
    data["next"] = "The next start (any command) builds a new generation where this is another model than before."
    emit(data, as_json, lambda: click.echo(f"{spec.identity.name} is in force: {spec.why}. {data['next']}"))


@model.command()
@json_option
@click.pass_obj
def warm(context: Context, as_json: bool) -> None:
    """Load the daemon's model now and wait until it is ready."""
    data = context.tool("model_warm", {})
    emit(
        data, as_json, lambda: click.echo(f"{data['name']} is {data['state']}: loaded in {data['load_seconds']:.1f} s.")
    )


def _loaded(context: Context) -> LoadedConfig:
    from memoryd.config import config_path, load_config

    return load_config(config_path(context.root, os.environ))


def _show_list(data: Mapping[str, Any]) -> None:
    for one in data["models"]:
        mark = "*" if one["name"] == data["in_force"] else " "
        about = f"{one['model']}, {one['dims']} dimensions, {one['language']}" if one["usable"] else one["problem"]
        click.echo(f"{mark} {one['name']}: {about}")
        if not one["usable"]:
            click.echo(f"    {one['next_step']}")
    click.echo(f"In force: {data['in_force'] or 'none'}, since {data['why']}.")


def _proved(data: Mapping[str, Any]) -> str:
    return (
        f"{data['model']} is whole (fingerprint {data['fingerprint'][:12]}): {data['found']:.0%} of the sentences find"
        f" their paraphrase, mean cosine {data['paraphrase']:.3f} against {data['unrelated']:.3f}."
    )
