"""How is a home, for a person: the daemon, what is remembered, how far the indexes are, and what needs a hand?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memoryd.cli_words import counted, spoken

Lines = list[tuple[str, str]]
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
KINDS = {"memory": "memories", "document": "documents", "code": "code files"}


def sections(data: Mapping[str, Any]) -> dict[str, Lines]:
    """Named lines under their titles, in the order in which a person asks; a line without a name goes with the last."""
    return {
        "Daemon": _daemon(data),
        "Memories": _memories(data),
        "Index": _index(data),
        "Model": _model(data["model"]),
        "Corpora": _corpora(data) or [("none", "`memoryd corpus add LABEL FOLDER` makes a folder searchable")],
        "Problems": list(_problems(data)) or [("none", "")],
    }


def _daemon(data: Mapping[str, Any]) -> Lines:
    about, scopes = data["daemon"], data["scopes"]
    running = f"up {_duration(about['uptime_seconds'])}, {counted(about['sessions'], 'session')}"
    own = scopes["project"]
    here = f"project {own['scope']}" if own else "no project"
    writes = scopes["writes"] or "only with --scope"
    return [
        ("version", data["version"]),
        ("process", f"{about['pid']}, {running}"),
        ("home", data["home"]),
        ("settings", data["config"]["path"]),
        ("here", here),
        ("reads", ", ".join(scopes["reads"])),
        ("writes", writes),
    ]


def _memories(data: Mapping[str, Any]) -> Lines:
    counts, vault = data["memories"], data["vault"]
    names = ["in_force", *(name for name in counts if name != "in_force")]
    lines = [(name.replace("_", " "), str(counts.get(name, 0))) for name in names]
    commit = (vault["commit"] or "none yet")[:12]
    return [*lines, ("vault", vault["path"]), ("commit", commit), ("to review", _review(data["review"]))]


def _review(counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in counts.items() if number)
    return f"{parts}: `memoryd review`" if parts else "nothing known of"


def _index(data: Mapping[str, Any]) -> Lines:
    kinds, store = data["documents"]["kind"], data["store"]
    parts = ", ".join(f"{count} {KINDS.get(kind, kind) if count != 1 else kind}" for kind, count in kinds.items())
    waiting = data["index"]["pending"]
    elsewhere = data["elsewhere"]["documents"]
    contents = f"{counted(store['contents'], 'content')} ({_size(store['raw_bytes'])})"
    packs = f"{counted(store['packs'], 'pack')} ({_size(store['stored_bytes'])} on disk)"
    lines = [
        ("documents", f"{sum(kinds.values())}" + (f" ({parts})" if parts else "")),
        ("passages", str(data["passages"])),
        ("waiting", f"{counted(waiting, 'document')} to be indexed" if waiting else "nothing"),
        ("generation", str(data["index"]["generation"])),
        ("store", f"{contents} in {packs}"),
    ]
    return [*lines, ("elsewhere", f"{counted(elsewhere, 'document')} of other projects")] if elsewhere else lines


def _model(model: Mapping[str, Any]) -> Lines:
    state = str(model["state"]) + (f", process {model['pid']}" if model.get("pid") else "")
    lines = [("name", str(model["name"])), ("why", str(model["why"])), ("state", state)]
    counts = [(name, model.get(name) or 0) for name in ("queued", "restarts", "poisoned")]
    return lines + [(name, str(count)) for name, count in counts if count]


def _corpora(data: Mapping[str, Any]) -> Lines:
    lines: Lines = []
    for one in data["corpora"]:
        code = ", with code" if one["code"] else ""
        lines.append((one["label"], f"{counted(one['documents'], 'document')}, {one['scope']}{code}"))
        lines.append(("", one["path"]))
    hidden = data["elsewhere"]["corpora"]
    return [*lines, ("elsewhere", f"{counted(hidden, 'corpus', 'corpora')} of other projects")] if hidden else lines


def _problems(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What needs a person, each with where it is."""
    for one in data["vault"]["faulty"]:
        yield "file", f"vault/{one['path']}"
        yield "", one["problem"]
    for one in data["vault"]["duplicates"]:
        yield "twice", f"the id {one['id'][:12]} stands in {' and '.join(one['paths'])}"
    for one in data["index"]["degraded"]:
        yield "index", f"{one['leg']}: {one['message']} {spoken(one.get('next_step', ''))}".rstrip()
    if data["model"].get("last_error") and data["model"]["state"] != "ready":
        yield "model", str(data["model"]["last_error"])
    for one in data["corpora"]:
        if one["problem"]:
            yield "corpus", f"{one['label']}: {one['problem']}"
    for one in data["orphaned"]:
        yield "corpus", f"{one['label']}: {counted(one['documents'], 'document')}, no longer in config.json"
        yield "", f"To drop: {one['next_step']}"
    if data["config"]["differs"]:
        yield "settings", "the file has changed: after `memoryd stop` the next start reads it"
    for text in data["notices"]:
        yield "notice", text
    hidden = sum(data["elsewhere"][name] for name in ("faulty", "duplicate_ids", "orphaned", "notices"))
    if hidden:
        yield "elsewhere", f"{hidden} more in other projects: look there"


def _duration(seconds: float) -> str:
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return counted(int(seconds // length), unit)
    return counted(int(seconds), "second")


def _size(count: float) -> str:
    for unit in UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} {UNITS[-1]}"
