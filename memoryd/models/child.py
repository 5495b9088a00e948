"""What does the model's process do, and when does it end?

`python -P -m memoryd.models.child`: frames on stdin and stdout, one `load`, then any number of `embed`. It ends as
soon as its stdin ends, also in the middle of a forward, so it never outlives a daemon that was killed. Whatever a
library prints goes to stderr: the real stdout is moved away before the libraries are imported.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoryd.errors import MemorydError, ModelFilesWrong
from memoryd.files import write_all
from memoryd.models.frames import Frame, decode, encode
from memoryd.models.identity import EMBEDDED, ModelFiles, locate

if TYPE_CHECKING:
    from memoryd.models.embedded import EmbeddedModel

IDLE_TRIM_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1


class Child:
    """The loop of the model's process; `source` and `sink` are descriptors that carry frames."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._model: EmbeddedModel | None = None

    def run(self) -> None:
        """Answer frames in order; never returns (the reader ends the process)."""
        threading.Thread(target=self._read, name="frames", daemon=True).start()
        while True:
            frame = self._next()
            header, payload = self._answer(frame)
            write_all(self._sink, encode(Frame(header, payload)))

    def _read(self) -> None:
        try:
            while (frame := decode(lambda count: os.read(self._source, count))) is not None:
                self._waiting.put(frame)
        finally:
            os._exit(0)

    def _next(self) -> Frame:
        try:
            return self._waiting.get(timeout=IDLE_TRIM_SECONDS)
        except queue.Empty:
            return_free_memory()
            return self._waiting.get()

    def _answer(self, frame: Frame) -> tuple[dict[str, Any], bytes]:
        try:
            if frame.header.get("op") == "load":
                return self._load(frame.header), b""
            if self._model is None:
                return {"error": "nothing is loaded", "code": "model-unavailable"}, b""
            return {}, self._model.embed(frame.payload.decode("utf-8", "replace"))
        except MemorydError as error:
            return {"error": error.message, "code": error.code, "path": error.details.get("path", "")}, b""
        except Exception as error:  # noqa: BLE001 - border: whatever a library raises for one text is told, not fatal
            return {"error": f"{type(error).__name__}: {error}"[:2000], "code": "model-error"}, b""

    def _load(self, header: dict[str, Any]) -> dict[str, Any]:
        started = time.monotonic()
        try:
            from memoryd.models.embedded import EmbeddedModel
        except ImportError as error:
            raise ModelFilesWrong(f"The embedding engine cannot be loaded: {error}.") from error
        named = header.get("files")
        files = ModelFiles(Path(named[0]), Path(named[1])) if named else locate()
        self._model = EmbeddedModel.load(files, threads=int(header["threads"]))
        self._model.embed("warm")
        return_free_memory()
        return {"fingerprint": EMBEDDED.fingerprint, "seconds": time.monotonic() - started}


def return_free_memory() -> None:
    """Hand the allocator's free pages back to the system: loading leaves about 60 MB of them behind."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def die_with_parent() -> None:
    """Ask the kernel for an end with the parent as well; the end of stdin stays the rule."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Move the frames away from descriptors 0 and 1, then serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    Child(source, sink).run()


if __name__ == "__main__":
    main()
