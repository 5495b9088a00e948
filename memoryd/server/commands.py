"""What does the command line ask of a daemon that no agent is offered: trees, artifacts, secrets, measurements?

Short questions run like a tool's call; what may take long is a job. A path that is no UTF-8 travels as base64.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from memoryd.operations import artifacts, calibrate, changes, kept, restore, snapshots, weights, why
from memoryd.operations.home import Caller, Home
from memoryd.records import decode_path
from memoryd.server.lanes import JobBody, Progress, Stop
from memoryd.server.toolbox import Run, Tool

Bind = Callable[[Callable[..., dict[str, Any]]], Run]
WRITING = ("memory_add", "memory_supersede", "memory_archive")
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}


def tree_commands(bind: Bind) -> tuple[Tool, ...]:
    """The short ones; `bind` gives an operation the home and its caller."""
    return (
        Tool(
            "snapshot_list",
            "Snapshots",
            "The snapshots of the caller's scopes.",
            {"label": _TEXT, "scope": _TEXT},
            bind(kept.listed),
            read_only=True,
        ),
        Tool(
            "snapshot_compare",
            "Compare snapshots",
            "What changed between two snapshots.",
            {"since": _TEXT, "until": _TEXT, "path_prefix": _TEXT, "scope": _TEXT, "limit": {"type": "integer"}},
            bind(changes.diff),
            required=("since",),
            read_only=True,
        ),
        Tool(
            "artifact_keep",
            "Keep an artifact",
            "A file of this machine becomes an artifact.",
            {"path": _TEXT, "name": _TEXT, "scope": _TEXT, "tags": _TEXTS, "redact": {"type": "boolean"}},
            bind(artifacts.add_file),
            required=("path",),
        ),
    )


def search_commands(bind: Bind, search: Tool) -> tuple[Tool, ...]:
    """What a person asks about a search: its own parameters, and an entry."""
    parameters = {name: one for name, one in search.schema["properties"].items() if name != "explain"}
    return (
        Tool(
            "memory_why",
            "Why (not) found",
            "Why a search returned an entry, or why not.",
            {**parameters, "id": _TEXT},
            bind(why.why),
            required=("query", "id"),
            read_only=True,
        ),
    )


def model_commands(bind: Bind) -> tuple[Tool, ...]:
    """What a person does with the model of a running daemon."""
    return (Tool("model_warm", "Load the model", "Load it and wait.", {}, bind(weights.warm), read_only=True),)


def writing_commands(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that write memories as a person's commands call them: with the word that a secret may stay in.

    They have the tools' names, and only the home's own HTTP socket looks here: no session can pass `allow_secret`.
    """
    return tuple(
        Tool(
            tool.name,
            tool.title,
            tool.description,
            {**tool.schema["properties"], "allow_secret": {"type": "boolean"}},
            tool.run,
            required=tuple(tool.schema.get("required", ())),
        )
        for tool in tools
        if tool.name in WRITING
    )


def tree_jobs(home: Home) -> Mapping[str, JobBody]:
    """The long ones."""

    def snapshot_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
        return snapshots.take(
            home,
            caller_of(args),
            path=path_of(args["path"]),
            label=args.get("label"),
            scope=args.get("scope"),
            full=bool(args.get("full")),
            partial=bool(args.get("partial")),
            progress=progress,
            stop=stop,
        )

    def restore_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
        inside = args.get("path")
        return restore.restore(
            home,
            caller_of(args),
            snapshot=args["snapshot"],
            target=path_of(args["target"]),
            path=None if inside is None else path_of(inside),
            scope=args.get("scope"),
            progress=progress,
            stop=stop,
        )

    def calibrate_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
        named = args.get("pairs")
        pairs = None if named is None else Path(path_of(named))
        return calibrate.calibrate(home, pairs=pairs, progress=progress, stop=stop)

    return {"snapshot": snapshot_job, "restore": restore_job, "calibrate": calibrate_job}


def caller_of(args: Mapping[str, Any]) -> Caller:
    """Who asked for a job."""
    directory = args.get("directory")
    return Caller(directory if isinstance(directory, str) else None, "command line")


def path_of(given: str | dict[str, str]) -> str:
    """A path as a job's arguments hold it."""
    return os.fsdecode(decode_path(given))
