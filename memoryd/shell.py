"""What do all commands share: where the home is, how errors and answers are shown, how long work is followed?"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from memoryd.client import DaemonClient, ToldError
from memoryd.errors import MemorydError
from memoryd.runtime import RuntimePaths, home_directory


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

    def tool(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool with the shell's directory as start directory; absent options are left out."""
        given = {key: value for key, value in arguments.items() if value not in (None, ())}
        return self.running().tool(name, given, str(Path.cwd()))


class Memoryd(click.Group):
    """The command group; turns memoryd's errors into one message, a next step and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except MemorydError as error:
            fail(error.to_dict(), as_json="--json" in sys.argv)


def fail(error: Mapping[str, Any], *, as_json: bool) -> NoReturn:
    """Show an error and leave with exit code 1."""
    if as_json:
        click.echo(json.dumps({"error": dict(error)}, ensure_ascii=False))
    else:
        from memoryd import show

        show.failure(error)
    raise SystemExit(1)


def emit(data: Mapping[str, Any], as_json: bool, human: Callable[[], None]) -> None:
    """Print the answer as one JSON object, or for people."""
    if as_json:
        click.echo(json.dumps(data, ensure_ascii=False, indent=2))
    else:
        human()


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
scope_option = click.option("--scope", help="`global` or a project id; default: this directory's project.")


def run_job(context: Context, kind: str, arguments: Mapping[str, Any], as_json: bool) -> dict[str, Any]:
    """Post a job to a running daemon and follow it. Raises DaemonUnavailable, or the job's own error."""
    from memoryd import show

    job = context.client.request("POST", "/api/jobs", {"kind": kind, "args": dict(arguments)})
    with show.Bar(quiet=as_json) as progress:
        ended = show.follow(lambda: context.client.request("GET", f"/api/jobs/{job['id']}"), progress)
    if ended["state"] != "done":
        raise ToldError(ended.get("result") or {"code": "job-failed", "message": f"Job {job['id']} {ended['state']}."})
    return dict(ended["result"])


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
