"""What do all commands share: where the home is, how errors and answers are shown, how long work is followed?"""

from __future__ import annotations

import io
import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from memoryd.cli_words import spoken_error
from memoryd.client import DaemonClient, NoDaemon, ToldError
from memoryd.errors import HomeBusy, JobUnfinished, MemorydError, PersonNeeded, ShuttingDown
from memoryd.runtime import RuntimePaths, home_directory
from memoryd.visible import make_visible, visible

JSON = "memoryd.json"
ATTEMPTS = 3
LEAVING_SECONDS = 6.0


class Context:
    """What the options before the command say."""

    def __init__(self, home: str | None) -> None:
        self.paths = RuntimePaths(home_directory(home, os.environ))
        self.root = Path(self.paths.home)
        self.client = DaemonClient(self.paths)

    def running(self) -> DaemonClient:
        """A client whose daemon runs, started now if need be."""
        from memoryd.starting import ensure_daemon

        ensure_daemon(self.paths)
        return self.client

    def ask(self, send: Callable[[DaemonClient], dict[str, Any]]) -> dict[str, Any]:
        """Send to a running daemon; again to its successor where it refused because it was on its way out."""
        for _ in range(ATTEMPTS - 1):
            try:
                return send(self.running())
            except NoDaemon:
                pass
            except ToldError as error:
                if error.to_dict().get("code") != ShuttingDown.code:
                    raise
            time.sleep(0.2)
        return send(self.running())

    def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool with the shell's directory as start directory; absent options are left out."""
        given = {key: value for key, value in arguments.items() if value not in (None, ())}
        return self.ask(lambda client: client.tool(name, given, directory()))

    def stop(self, seconds: float = 15.0) -> int | None:
        """Ask a running daemon to end and wait until its process is gone; its pid, or None where none ran.

        Raises HomeBusy where somebody owns the home and does not end, or answers nobody.
        """
        try:
            pid = int(self.client.request("GET", "/healthz", timeout=5)["pid"])
            process = os.pidfd_open(pid)
            try:
                self.client.request("POST", "/api/drain", {}, timeout=5)
                gone = bool(select.select([process], [], [], seconds)[0])
            finally:
                os.close(process)
        except (NoDaemon, ProcessLookupError):
            self._nobody()
            return None
        if not gone:
            raise HomeBusy(f"Process {pid} still runs after {seconds:g} s.", next_step=f"Read {self.paths.log_file}.")
        return pid

    def _nobody(self) -> None:
        """Make sure of it: a daemon on its way out serves no socket any more, but still owns the home for a moment."""
        from memoryd.operations.owner import holder_of

        until = time.monotonic() + LEAVING_SECONDS
        while (holder := holder_of(self.root) if self.root.is_dir() else None) is not None:
            if time.monotonic() > until:
                raise HomeBusy(
                    f"Process {holder or 'unknown'} owns {self.root} and serves no socket.",
                    next_step="It is starting, or another command works on this home: wait until it has ended.",
                )
            time.sleep(0.1)


def directory() -> str | None:
    """The directory that this command was given in."""
    try:
        return str(Path.cwd())
    except OSError:  # removed under our feet
        return None


class Memoryd(click.Group):
    """The command group; turns memoryd's errors into one message, a next step and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a poor terminal must not cost the answer
        try:
            return super().invoke(ctx)
        except MemorydError as error:
            fail(spoken_error(error.to_dict()), as_json=JSON in ctx.meta)


def fail(error: Mapping[str, Any], *, as_json: bool) -> NoReturn:
    """Show an error and leave with exit code 1."""
    if as_json:
        click.echo(_dumps({"error": dict(error)}))
    else:
        from memoryd import show

        show.failure({name: visible(str(error[name])) for name in ("message", "next_step", "code") if error.get(name)})
    raise SystemExit(1)


def emit(data: Mapping[str, Any], as_json: bool, human: Callable[[], None]) -> None:
    """Print the answer as one JSON object, or for people; what `human` shows of it steers no terminal."""
    if as_json:
        click.echo(_dumps(data))
        return
    if sys.stdout.isatty():  # elsewhere every byte is as it is: `memoryd get ID > file`
        make_visible(data)
    human()


def _dumps(data: Mapping[str, Any]) -> str:
    """JSON in the letters that standard output can carry."""
    unicode = (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")
    return json.dumps(data, ensure_ascii=not unicode, indent=2)


def _note_json(ctx: click.Context, _option: click.Parameter, value: bool) -> bool:
    if value:
        ctx.meta[JSON] = True  # for the group, which shows errors; `meta` is shared by all nested commands
    return value


json_option = click.option(
    "--json", "as_json", is_flag=True, is_eager=True, callback=_note_json, help="Print one JSON object."
)
scope_option = click.option("--scope", help="`global` or a project id; default: this directory's project.")


def content_of(argument: str) -> str:
    """The argument, or for `-` all of standard input; what is no UTF-8 stays, for the daemon to refuse."""
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape") if argument == "-" else argument


def person(question: str, answer: str) -> None:
    """Ask whoever sits at the terminal to type `answer`. Raises PersonNeeded where nobody does, or types otherwise."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise PersonNeeded("This cannot be undone, so a person has to say yes at a terminal; nothing was changed.")
    click.echo(f"{question} Type `{answer}` to go on: ", nl=False, err=True)
    if sys.stdin.readline().strip() != answer:
        raise PersonNeeded("Not confirmed; nothing was changed.", next_step="Give the command again to see the plan.")


def run_job(context: Context, kind: str, arguments: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    """Post a job to a running daemon and follow it. Raises DaemonUnavailable, or the job's own error."""
    from memoryd import show

    job = context.ask(lambda client: client.request("POST", "/api/jobs", {"kind": kind, "args": dict(arguments)}))
    with show.Bar(quiet=as_json) as progress:
        ended = show.follow(lambda: context.client.request("GET", f"/api/jobs/{job['id']}"), progress)
    result = dict(ended.get("result") or {})
    if ended["state"] == "failed" and "code" in result:
        raise ToldError(result)
    if ended["state"] != "done":
        raise JobUnfinished(f"{job['id']} ({kind}) was {ended['state']}.", job=job["id"])
    return result


def owned(context: Context, run: Callable[[Any, Any], dict[str, Any]], as_json: bool) -> dict[str, Any]:
    """Run something on this home in this process, under the home's lock."""
    from memoryd import show
    from memoryd.operations.home import open_home
    from memoryd.operations.owner import own_home
    from memoryd.operations.recover import recover

    lock = own_home(context.root)
    try:
        home = open_home(context.root, environment=os.environ)
        try:
            recover(home)
            with show.Bar(quiet=as_json) as progress:
                return run(home, progress)
        finally:
            home.close()
    finally:
        lock.release()
