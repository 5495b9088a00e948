"""How do people see answers: tables, trees and progress bars on a terminal, plain lines elsewhere?"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from memoryd.cli_words import counted, spoken

EXCERPT_LINES = 8
MESSAGE_INDENT = "\n" + " " * 15
ProgressCall = Callable[[int, int, str], None]


def console(*, stderr: bool = False) -> Console:
    """A console; styles and bars appear only on a terminal."""
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def failure(error: Mapping[str, Any]) -> None:
    """An error as a person reads it: what happened, then what to do."""
    out = console(stderr=True)
    out.print(f"[bold red]{escape(str(error.get('message', '')))}[/] [dim]({error.get('code')})[/]")
    if error.get("next_step"):
        out.print(f"Next: {escape(str(error['next_step']))}")


def hits(answer: Mapping[str, Any]) -> None:
    """Search results, best first, then what the answer says of itself."""
    out = console()
    for number, one in enumerate(answer["memories"], 1):
        _hit(out, number, one)
    out.print(escape(spoken(answer["summary"])))
    for text in answer.get("suggestions", []):
        out.print(f"Try also: {escape(text)}")
    if "explain" in answer:
        _explained(out, answer["explain"])
    index_line(answer["index"])


def brief(answer: Mapping[str, Any]) -> None:
    """A brief as agents read it, then what to do next."""
    out = console()
    out.print(escape(answer["brief"]))
    out.print(f"[dim]{escape(spoken(answer['next']))}[/]")
    index_line(answer["index"])


def _hit(out: Console, number: int, one: Mapping[str, Any]) -> None:
    where = f"{one['source']}:{one['lines'][0]}-{one['lines'][1]}"
    out.print(
        f"[bold]{number}. {escape(one['title'])}[/]  [dim]{one['relevance']:.3f} {one['kind']} {one['status']}[/]"
    )
    out.print(f"   [cyan]{escape(where)}[/]  [dim]{one['scope']}[/]")
    memory = f"  id {one['id'][:12]}" if one["kind"] == "memory" else ""
    out.print(f"   [dim]{one['address']}{memory}[/]")
    if one.get("problem"):
        out.print(f"   [yellow]Problem: {escape(problem(one))}[/]")
    for line in citation_lines(one):
        out.print(f"   [yellow]{escape(line)}[/]" if "is fresh" not in line else f"   [dim]{escape(line)}[/]")
    if "explain" in one:
        out.print(f"   [magenta]{escape(_legs(one['explain']))}[/]")
    for line in _surroundings(one):
        out.print(f"   [dim]{escape(line)}[/]")
    lines = [line for line in one["content"].splitlines() if line.strip()]
    for line in [*lines[:EXCERPT_LINES], *(["..."] if len(lines) > EXCERPT_LINES else [])]:
        out.print(f"   {escape(line)}")


def _surroundings(one: Mapping[str, Any]) -> list[str]:
    """Where the same text stands too, what the hit is part of, and where the turns beside it are."""
    lines = [f"also {source}" for source in one.get("also", ())]
    if one.get("also_more"):
        lines.append(f"and {counted(one['also_more'], 'more place')}")
    lines += [f"in {around['content'].splitlines()[0]}" for around in one.get("within", ())]
    return lines + [f"{name} it {one[name]['source']}" for name in ("before", "after") if name in one]


def citation_lines(one: Mapping[str, Any]) -> list[str]:
    """How the places that a memory cites stand, in words."""
    lines = []
    for cited in one.get("citations", ()):
        lines.append(
            f"cites {cited['at']}, which is {cited['state']}" + (f": {cited['hint']}" if "hint" in cited else "")
        )
        lines += [f"  {line}" for line in cited.get("diff", ())]
    if one.get("citations_more"):
        lines.append(f"and {counted(one['citations_more'], 'more citation')}")
    return lines


def problem(one: Mapping[str, Any]) -> str:
    """What is wrong with an entry; of a memory's file that does not read as one, also what that means."""
    if one["kind"] == "memory" and "fact" not in one:
        return f"{one['problem']} Until that line is mended by hand, the file goes by another id."
    return str(one["problem"])


def _legs(explain: Mapping[str, Any]) -> str:
    """Where each leg had a hit and with which score, and what came of it; whatever else is there follows."""
    scores = explain["scores"]
    parts = []
    for leg, rank in explain["ranks"].items():
        parts.append(f"{leg} no. {rank} ({scores[leg]:.3f})" if leg in scores else f"{leg} no. {rank}")
    parts += [
        f"{name} {shown(_rounded(value))}"
        for name, value in explain.items()
        if name not in ("ranks", "scores", "fused")
    ]
    return f"{', '.join(parts)}: together {explain['fused']:.4f}"


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: f"{one:+.3f}" if isinstance(one, float) else one for name, one in value.items()}
    return value


def _explained(out: Console, explain: Mapping[str, Any]) -> None:
    """Candidates and milliseconds of a whole search."""
    found = ", ".join(f"{leg} {count}" for leg, count in explain["candidates"].items())
    spent = dict(explain["milliseconds"])
    total = spent.pop("total")
    steps = ", ".join(f"{name} {value:.1f}" for name, value in spent.items())
    looked = {name: value for name, value in explain["filter"].items() if value}
    out.print(f"[magenta]Candidates: {escape(found)}. Looked in: {escape(shown(looked))}.[/]")
    if under := explain["under_floor"]:
        out.print(f"[magenta]Under the floor of relevance: {under}; `memoryd why QUERY ID` says how far.[/]")
    for id, why in explain["left_out"].items():
        what = why if why in ("changed", "unreadable") else f"repeats {why[:12]}"
        out.print(f"[magenta]Left out: {id[:12]} ({what}).[/]")
    out.print(f"[magenta]Time: {total:.1f} ms ({steps}).[/]")


def added(answer: Mapping[str, Any]) -> None:
    """What became of a memory, its neighbours with the command that settles each, and what to do next."""
    out = console()
    one = answer.get("neighbour", answer)
    named = one["id"][:12]
    out.print(f"[bold]{answer['outcome']}[/]: {named} {escape(one['path'])} [dim]{one['scope']}[/]")
    if "content" in one:
        out.print(escape(textwrap.indent(one["content"].strip(), "   | ")))
    if answer.get("successor"):
        out.print(f"   successor: {answer['successor']['id'][:12]} {escape(answer['successor']['title'])}")
    for near in answer.get("similar", []):
        out.print(f"   similar: {near['id'][:12]} {escape(near['title'])} [dim]{near['likeness']:.3f}[/]")
    for near in answer.get("conflicts", []):
        out.print(f"   older: {near['id'][:12]} {escape(near['title'])}")
        out.print(f"      {escape(near['reason'])}: memoryd supersede {near['id'][:12]} --by {named}")
    if answer.get("proposal"):
        out.print(f"   proposed: memoryd supersede {answer['proposal']['arguments']['id'][:12]} CONTENT")
    if "notice" in answer:
        out.print(f"[yellow]{escape(answer['notice'])}[/]")
    out.print(escape(spoken(answer["next"])))


def index_line(index: Mapping[str, Any]) -> None:
    """Generation, backlog and reasons of a degraded answer, where there is something to say."""
    out = console()
    if index["pending"]:
        number = index["pending"]
        out.print(f"[yellow]{counted(number, 'document')} {'is' if number == 1 else 'are'} not indexed yet.[/]")
    for one in index["degraded"]:
        out.print(f"[yellow]{one['leg']}: {escape(one['message'])}[/] {escape(spoken(one.get('next_step', '')))}")


def sections(parts: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Titles with named lines below; lines are never broken."""
    out = console()
    width = max(len(name) for lines in parts.values() for name, _ in lines)
    for title, lines in parts.items():
        out.print(f"[bold]{escape(title)}[/]")
        for name, text in lines:
            out.print(f"  [cyan]{escape(name):<{width}}[/]  {escape(text)}".rstrip())


def pairs(title: str, values: Mapping[str, Any]) -> None:
    """A title, then name and value on one line each; lines are never broken, so that they can be searched."""
    out = console()
    out.print(f"[bold]{escape(title)}[/]")
    width = max((len(name) for name in values), default=0)
    for name, value in values.items():
        many = isinstance(value, list) and len(value) > 1 and isinstance(value[0], Mapping)
        for number, line in enumerate([shown(one) for one in value] if many else [_moment(name, value)]):
            out.print(f"  [cyan]{escape('' if number else name):<{width}}[/]  {escape(line)}")


def _moment(name: str, value: Any) -> str:
    """As `shown`; a job's times as people read them."""
    if name in ("started", "updated", "finished") and isinstance(value, (int, float)):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    return shown(value)


def shown(value: Any) -> str:
    """A value of an answer as one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return str(value)


def rows(columns: Sequence[str], lines: Sequence[Sequence[Any]]) -> None:
    """Columns under a header, aligned; lines are never broken."""
    out = console()
    cells = [[shown(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    out.print("  ".join(f"[bold]{escape(name):<{width}}[/]" for name, width in zip(columns, widths, strict=True)))
    for line in cells:
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
        out.print(escape(text.rstrip()))


def checks(found: Sequence[Mapping[str, Any]]) -> None:
    """The doctor's list."""
    out = console()
    for one in found:
        mark = "[yellow]WARN[/]" if one.get("warning") else "[bold red]FAIL[/]"
        mark = "[green]ok  [/]" if one["ok"] else mark
        message = one["message"].replace("\n", MESSAGE_INDENT)
        out.print(f"{mark} {one['name']:<9} {escape(message)}")
        if not one["ok"]:
            out.print(f"     Next: {escape(one['next_step'])}")


class Bar:
    """A progress bar on standard error; silent where that is no terminal or `quiet` is set."""

    def __init__(self, *, quiet: bool) -> None:
        err = console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=err,
            disable=quiet or not err.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> ProgressCall:
        self._progress.start()
        return self.update

    def __exit__(self, *_exc: object) -> None:
        self._progress.stop()

    def update(self, done: int, total: int, note: str) -> None:
        """Show `done` of `total` (0: unknown) with a note."""
        self._progress.update(self._task, completed=done, total=total or None, description=note or "working")


def follow(job: Callable[[], Mapping[str, Any]], progress: ProgressCall, *, every: float = 0.2) -> Mapping[str, Any]:
    """Poll a job until it ended; returns its last state."""
    while True:
        state = job()
        progress(int(state.get("done") or 0), int(state.get("total") or 0), str(state.get("note") or state["kind"]))
        if state["state"] not in ("queued", "running"):
            return state
        time.sleep(every)
