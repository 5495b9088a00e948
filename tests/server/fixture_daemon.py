"""A daemon on the product's own stack whose tools do what tests need: be slow, crash, answer too much, print.

Run as a program it takes the arguments that a proxy starts a daemon with. `<home>/fixture.json` may hold settings:
`open_seconds`, `open_error`, `start_seconds` (before the lock), `version`, `wire`.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from memoryd import runtime
from memoryd.runtime import RuntimePaths


def settings(home: str) -> dict[str, Any]:
    try:
        return json.loads((Path(home) / "fixture.json").read_text())
    except FileNotFoundError:
        return {}


def make_toolbox(paths: RuntimePaths) -> Any:
    from memoryd.errors import HomeError, NotFound
    from memoryd.server.lanes import Duty
    from memoryd.server.toolbox import Asker, Tool, Toolbox

    home = Path(paths.home)
    chosen = settings(paths.home)
    written = home / "written.txt"
    releases = home / "release"

    def note(text: str) -> None:
        with written.open("a") as file:
            file.write(text + "\n")

    def slow(_asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        note(f"slow begins {given.get('text', '')}")
        until = time.monotonic() + given.get("seconds", 5)
        while time.monotonic() < until and not releases.exists():
            time.sleep(0.01)
        note(f"slow ends {given.get('text', '')}")
        return {"slept": True}

    def write(_asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        note(f"write begins {given.get('text', '')}")
        time.sleep(given.get("seconds", 0))
        note(f"write {given.get('text', '')}")
        time.sleep(given.get("after", 0))
        return {"written": given.get("text", "")}

    def write_then_die(_asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        note(f"write {given.get('text', '')}")
        os._exit(9)

    def die(_asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        note("die")
        marker = home / "died"
        if given.get("once") and marker.exists():
            return {"survived": True}
        marker.touch()
        os._exit(9)

    def show(asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        kind = given.get("kind", "echo")
        if kind == "echo":
            return {"text": given.get("text", ""), "directory": asker.directory, "pid": os.getpid()}
        if kind == "big":
            return {"text": given.get("text", "x") * given["size"]}
        if kind == "surrogate":
            return {"text": "file \udce4.md"}
        if kind == "print":
            print("printed by a library", flush=True)
            os.write(1, b"written to descriptor 1\n")
            return {"printed": True}
        if kind == "missing":
            raise NotFound("There is no such thing.", thing="x")
        if kind == "busy":
            until = time.monotonic() + given.get("size", 1)
            while time.monotonic() < until:
                sum(range(1000))
            return {"busy": True}
        if kind == "hold":
            note("hold begins")
            time.sleep(1)
            ctypes.PyDLL(None).usleep(given["size"] * 1_000_000)  # called without letting go of the interpreter's lock
            return {"held": True}
        if kind == "environment":
            return {"environment": dict(os.environ), "path": sys.path, "cwd": os.getcwd(), "argv": sys.orig_argv}
        raise ValueError("secret internals: /etc/shadow")

    def change(_asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
        if given.get("confirm") is None:
            token = f"token for {given['id']}"
            return {"outcome": "preview", "action": "change", "id": given["id"], "title": "T", "confirm": token}
        if given["confirm"] != f"token for {given['id']}":
            raise NotFound("wrong token")
        note(f"changed {given['id']}")
        return {"outcome": "changed", "id": given["id"]}

    text, number = {"type": "string"}, {"type": "number"}

    class Jobs:
        """A job store in memory."""

        def __init__(self) -> None:
            self.rows: dict[str, SimpleNamespace] = {}

        def create(self, kind: str, args: dict[str, Any]) -> str:
            id = f"job-{len(self.rows) + 1}"
            empty = {
                "done": 0,
                "total": 0,
                "note": "",
                "result": None,
                "started": 0.0,
                "updated": 0.0,
                "finished": None,
            }
            self.rows[id] = SimpleNamespace(id=id, kind=kind, args=args, state="running", **empty)
            return id

        def progress(self, id: str, done: int, total: int, note: str = "") -> None:
            row = self.rows[id]
            row.done, row.total, row.note = done, total, note

        def finish(self, id: str, outcome: str, result: dict[str, Any]) -> None:
            row = self.rows[id]
            row.state, row.result, row.finished = outcome, result, 1.0

        def get(self, id: str) -> Any:
            return self.rows.get(id)

        def listed(self, limit: int) -> list[Any]:
            return list(self.rows.values())[::-1][:limit]

    def count(args: dict[str, Any], progress: Any, stop: Any) -> dict[str, Any]:
        for number in range(args["to"]):
            progress(number, args["to"], "counting")
            time.sleep(args.get("pause", 0))
            if stop() and not args.get("stubborn"):
                break
        return {"counted": args["to"]}

    def fail(_args: dict[str, Any], _progress: Any, _stop: Any) -> dict[str, Any]:
        raise NotFound("nothing to count") if _args.get("typed") else ValueError("secret")

    class FixtureToolbox(Toolbox):
        instructions = "A daemon for tests."
        tools = (
            Tool("slow", "Slow", "Sleeps.", {"seconds": number, "text": text}, slow, read_only=True),
            Tool(
                "show",
                "Show",
                "Answers in many ways.",
                {"kind": text, "text": text, "size": {"type": "integer", "minimum": 0}, "path_prefix": text},
                show,
                read_only=True,
            ),
            Tool("die", "Die", "Ends the daemon.", {"once": {"type": "boolean"}}, die, read_only=True),
            Tool("write", "Write", "Writes a line.", {"text": text, "seconds": number, "after": number}, write),
            Tool("write_then_die", "Write", "Writes, then ends the daemon.", {"text": text}, write_then_die),
            Tool(
                "change",
                "Change",
                "Previews first.",
                {"id": text, "confirm": text},
                change,
                required=("id",),
                destructive=True,
                confirms=True,
            ),
        )

        def __init__(self) -> None:
            self.rounds = 0
            self.store = Jobs()
            self.wake = threading.Event()

        def open(self) -> None:
            time.sleep(chosen.get("open_seconds", 0))
            if "open_bug" in chosen:
                raise ValueError(chosen["open_bug"])
            if "open_error" in chosen:
                raise HomeError(chosen["open_error"])
            if chosen.get("open_dies"):
                os._exit(7)

        def close(self) -> None:
            note("closed")

        @property
        def listen(self) -> str | None:
            return chosen.get("listen")

        def seal_key(self) -> bytes:
            return b"k" * 32

        def ready(self) -> list[str]:
            time.sleep(chosen.get("ready_seconds", 0))
            if "ready_error" in chosen:
                raise HomeError(chosen["ready_error"]) if chosen["ready_error"] else ValueError("internals")
            return list(chosen.get("reasons", []))

        def numbers(self) -> dict[str, float]:
            return {"rounds": self.rounds}

        def status(self) -> dict[str, Any]:
            return {"fixture": True}

        def duties(self) -> tuple[Duty, ...]:
            def turn(_stop: Any) -> float:
                self.rounds += 1
                if self.rounds == 1:
                    raise ValueError("the first round fails")
                return 0.05

            return (Duty("turn", turn, self.wake),)

        def jobs(self) -> Any:
            return {"count": count, "fail": fail}, self.store

    return FixtureToolbox()


def main() -> int:
    from memoryd.server import daemon, lanes

    home = sys.argv[sys.argv.index("--home") + 1]
    chosen = settings(home)
    time.sleep(chosen.get("start_seconds", 0))
    if chosen.get("start_dies"):
        os._exit(5)
    runtime.VERSION = chosen.get("version", runtime.VERSION)
    runtime.WIRE = chosen.get("wire", runtime.WIRE)
    lanes.FAILED_PAUSE = 0.05
    return daemon.serve(home, detach="--detach" in sys.argv, toolbox=make_toolbox)


if __name__ == "__main__":
    sys.exit(main())
