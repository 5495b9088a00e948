"""How do people see answers: tables, trees and progress bars on a terminal, plain lines elsewhere?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

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
        where = f"{one['source']}:{one['lines'][0]}-{one['lines'][1]}"
        out.print(
            f"[bold]{number}. {escape(one['title'])}[/]  [dim]{one['relevance']:.3f} {one['kind']} {one['status']}[/]"
        )
        out.print(f"   [cyan]{escape(where)}[/]  [dim]{one['scope']}[/]")
        out.print(f"   [dim]{one['address']}  id {one['id'][:12]}[/]")
        for line in one["content"].strip().splitlines()[:6]:
            out.print(f"   {escape(line)}")
    out.print(escape(answer["summary"]))
    for text in answer.get("suggestions", []):
        out.print(f"Try also: {escape(text)}")
    index_line(answer["index"])


def index_line(index: Mapping[str, Any]) -> None:
    """Generation, backlog and reasons of a degraded answer, where there is something to say."""
    out = console()
    if index["pending"]:
        out.print(f"[yellow]{index['pending']} documents are not indexed yet.[/]")
    for one in index["degraded"]:
        out.print(f"[yellow]{one['leg']}: {escape(one['message'])}[/] {escape(one.get('next_step', ''))}")


def pairs(title: str, values: Mapping[str, Any]) -> None:
    """A two-column table."""
    table = Table(title=title, show_header=False, title_justify="left", box=None)
    for name, value in values.items():
        table.add_row(f"[bold]{escape(name)}[/]", escape(shown(value)))
    console().print(table)


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
    """A table with a header."""
    table = Table(*columns, box=None, pad_edge=False)
    for line in lines:
        table.add_row(*(escape(shown(cell)) for cell in line))
    console().print(table)


def checks(found: Sequence[Mapping[str, Any]]) -> None:
    """The doctor's list."""
    out = console()
    for one in found:
        mark = "[green]ok  [/]" if one["ok"] else "[bold red]FAIL[/]"
        out.print(f"{mark} {one['name']:<9} {escape(one['message'])}")
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
