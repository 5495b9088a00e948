"""How does a person go through memories that want a look, one keystroke each?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import click

from memoryd.cli_words import counted, spoken
from memoryd.client import ToldError
from memoryd.records import REVIEW_SECTIONS
from memoryd.shell import Context, emit, json_option, scope_option
from memoryd.visible import make_visible, visible

SKIP_DAYS = 30
VERDICTS = ("useful", "wrong", "outdated")
TITLES = {
    "feedback": "Said to be wrong or outdated",
    "conflicting": "In conflict with another memory",
    "citations": "What they cite has changed",
    "near_duplicates": "Nearly the same as another one",
    "stale": "Not asked for in a long time",
    "never_recalled": "Never recalled",
    "verbose": "Long",
}


@click.command()
@click.argument("memory")
@click.argument("verdict", type=click.Choice(VERDICTS))
@click.option("--note", help="One line: why, or what holds.")
@json_option
@click.pass_obj
def feedback(context: Context, memory: str, verdict: str, note: str | None, as_json: bool) -> None:
    """Say whether MEMORY held; nothing is retired by it."""
    data = context.tool("memory_feedback", {"id": memory, "verdict": verdict, "note": note})
    emit(data, as_json, lambda: _show_feedback(data))


def _show_feedback(data: Mapping[str, Any]) -> None:
    said = ", ".join(f"{verdict} {number}" for verdict, number in data["feedback"].items())
    click.echo(f"{data['outcome']}: {data['id'][:12]} {data['title']} ({said})")
    for one in data["proposals"]:
        click.echo(f"   proposed: {one['command']}")


@click.command()
@click.option("--section", "sections", multiple=True, type=click.Choice(REVIEW_SECTIONS), help="Only these.")
@click.option("--list", "listed", is_flag=True, help="Show all with their commands; ask nothing.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Items of a section.")
@scope_option
@json_option
@click.pass_obj
def review(
    context: Context, sections: tuple[str, ...], listed: bool, limit: int, scope: str | None, as_json: bool
) -> None:
    """Go through memories that want a look.

    Blamed ones, in conflict, whose cited files changed, said twice, unused, long. At a terminal it asks about one after
    the other; with --list, --json or elsewhere it shows them. Nothing is retired without a yes.
    """
    arguments = {"sections": list(sections) or None, "limit": limit, "scope": scope}
    data = _looked(context, arguments, as_json)
    if as_json or listed or not (sys.stdin.isatty() and sys.stdout.isatty()):
        emit(data, as_json, lambda: _show_all(data))
    else:
        _walk(context, data)


def _looked(context: Context, arguments: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    """The review, asked for again until every memory was compared with its neighbours, or that goes no further."""
    from memoryd import show

    wanted = arguments["sections"]
    with show.Bar(quiet=as_json) as progress:
        done = -1
        while True:
            data = context.tool("review", arguments)
            looked = data["looked"]
            progress(looked["done"], looked["of"], "comparing memories")
            complete = looked["done"] >= looked["of"] or looked["done"] == done or looked["problem"]
            if complete or (wanted and "near_duplicates" not in wanted):
                return data
            done = looked["done"]


def _show_all(data: Mapping[str, Any]) -> None:
    for name, section in data["sections"].items():
        if section["count"]:
            click.echo(f"{TITLES[name]} ({section['count']})")
        for item in section["items"]:
            click.echo(f"  {item['id'][:12]}  {item['title']}")
            for line in _told(item):
                click.echo(f"      {line}")
            click.echo(f"      {item['command']}")
        if section["count"] > len(section["items"]):
            click.echo(f"  {section['count'] - len(section['items'])} more: --limit shows them")
    _show_end(data)


def _show_end(data: Mapping[str, Any]) -> None:
    click.echo(f"{counted(data['total'], 'item')} in {counted(data['memories'], 'memory', 'memories')}.")
    if data["looked"]["problem"]:
        click.echo(f"Near duplicates are not complete: {data['looked']['problem']}")


def _told(item: Mapping[str, Any]) -> list[str]:
    """What is to be known of an item, line by line."""
    lines = [] if "citations" in item else [str(item["why"])]  # which names the same places
    if "other" in item:
        lines.append(f"kept: {item['other']['id'][:12]}  {item['other']['title']}")
        lines.append(item["difference"] or "the words are the same")
    for one in item.get("citations", ()):
        lines.append(f"{one['at']} is {one['state']}" + (f": {one['hint']}" if "hint" in one else ""))
        lines += [f"  {line}" for line in one.get("diff", ())]
    return lines


def _walk(context: Context, data: Mapping[str, Any]) -> None:
    """Ask about one item after the other."""
    items = [item for section in data["sections"].values() for item in section["items"]]
    gone: set[str] = set()
    for number, item in enumerate(items, 1):
        if gone & {item["id"], item.get("other", {}).get("id")}:
            continue  # one of the two was retired a moment ago
        _show_item(item, f"{number} of {len(items)}")
        answer = _asked(context, item)
        if answer == "quit":
            break
        if answer == "retired":
            gone.add(item["id"])
    else:
        _show_end(data)


def _show_item(raw: Mapping[str, Any], place: str) -> None:
    item = make_visible(deepcopy(raw))
    click.echo(f"\n{place}. {TITLES[item['section']]}: {item['title']}")
    used = f"recalled {item['recalls']} times" if item["recalls"] != 1 else "recalled once"
    click.echo(f"   {item['type']}, {item['scope']}, since {item['created'][:10]}, {used}")
    for line in str(item["excerpt"]).splitlines()[:8]:
        click.echo(f"   | {line}")
    for line in _told(item):
        click.echo(f"   {line}")


def _asked(context: Context, item: Mapping[str, Any]) -> str:
    """What a person wants done with the item, done: `retired`, `left` or `quit`."""
    keys = _keys(item)
    while True:
        click.echo("   " + "  ".join(f"[{key}] {words}" for key, (words, _) in keys.items()) + " ", nl=False)
        pressed = click.getchar()
        key = pressed.lower() if pressed.strip() else "enter"
        if key not in keys:
            click.echo("?")
            continue
        click.echo(key)
        try:
            done = keys[key][1](context, item)
        except ToldError as error:
            told = error.to_dict()
            click.echo(f"   {spoken(str(told.get('message')))} {spoken(str(told.get('next_step') or ''))}".rstrip())
            continue
        if done:
            return done


Doing = Callable[[Context, Mapping[str, Any]], str]


def _keys(item: Mapping[str, Any]) -> dict[str, tuple[str, Doing]]:
    """The keys that make sense for an item."""
    keys: dict[str, tuple[str, Doing]] = {}
    if "by" in item["action"]["arguments"]:
        keys["r"] = ("replace it by the other", _make)
    keys["a"] = ("archive it", _archive)
    keys["e"] = ("edit its words", _edit)
    keys["k"] = ("both may stand" if "other" in item else "keep it", _keep)
    keys["s"] = (f"not for {SKIP_DAYS} days", _skip)
    keys["enter"] = ("next", lambda _context, _item: "left")
    keys["q"] = ("quit", lambda _context, _item: "quit")
    return keys


def _make(context: Context, item: Mapping[str, Any]) -> str:
    """The proposed call as it stands."""
    return _confirmed(context, item["action"]["tool"], item["action"]["arguments"])


def _archive(context: Context, item: Mapping[str, Any]) -> str:
    proposed = item["action"]["arguments"].get("reason") or item["why"]
    return _confirmed(context, "memory_archive", {"id": item["id"], "reason": str(proposed)[:500]})


def _edit(context: Context, item: Mapping[str, Any]) -> str:
    """A person writes the next revision in $EDITOR, and says yes to what differs."""
    words = context.tool("review_words", {"id": item["id"]})["content"]
    edited = click.edit(words, extension=".md")
    if edited is None or edited.strip() in ("", words.strip()):
        click.echo("   Unchanged.")
        return ""
    arguments = {"id": item["id"], "content": edited.strip()}
    preview = context.tool("memory_supersede", arguments)
    _lines(preview["diff"])
    click.echo("   Replace it by this? [y/n] ", nl=False)
    pressed = click.getchar()
    click.echo(pressed)
    return _confirmed(context, "memory_supersede", arguments, preview) if pressed.lower() == "y" else ""


def _keep(context: Context, item: Mapping[str, Any]) -> str:
    context.tool("review_keep", _named(item))
    return "left"


def _skip(context: Context, item: Mapping[str, Any]) -> str:
    context.tool("review_put_off", {**_named(item), "days": SKIP_DAYS})
    return "left"


def _named(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"section": item["section"], "id": item["id"], "other": item.get("other", {}).get("id")}


def _confirmed(
    context: Context, tool: str, arguments: Mapping[str, Any], preview: Mapping[str, Any] | None = None
) -> str:
    """Do what the plan shows: a person pressed the key for it."""
    if preview is None:
        preview = context.tool(tool, arguments)
        _lines(preview["diff"])
    done = context.tool(tool, {**arguments, "confirm": preview["confirm"]})
    click.echo(f"   {done['outcome']}: {done['retired'][:12]}, commit {done['commit'][:12]}")
    return "retired"


def _lines(diff: Sequence[str]) -> None:
    for line in diff:
        click.echo(f"     {visible(line)}")
