"""What does the model's process do, and when does it end?

`python -P -m memoryd.models.child`: frames on stdin and stdout, one `load`, then any number of `encode` (texts) and
`rerank` (a query and passages). It ends as soon as its stdin ends, also in the middle of a forward, so it never
outlives a daemon that was killed. Whatever a library prints goes to stderr: the real stdout is moved away before the
libraries are imported.
"""

from __future__ import annotations

import ctypes
import os
import queue
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from memoryd.errors import MemorydError, ModelFilesWrong
from memoryd.files import write_all
from memoryd.models.frames import Frame, decode, encode, joined, parted
from memoryd.models.identity import BGE_M3_KIND, ModelFiles, locate
from memoryd.records import Encoded

if TYPE_CHECKING:
    from memoryd.models.reranker import Reranker

IDLE_TRIM_SECONDS = 1.0
FIRST_TO_END = b"500"
"""Where memory runs out, the kernel ends this process rather than the daemon: it comes back by itself."""
MAXSIM = "maxsim"
QUERIES_KEPT = 8
"""Queries whose token vectors are kept: a reranking follows its query."""
_PR_SET_PDEATHSIG = 1


class Model(Protocol):
    """What every model offers here."""

    fingerprint: str
    dims: int
    batch_tokens: int
    device: str

    def embed(self, text: str) -> bytes: ...

    def encode(self, texts: Sequence[str], *, tokens: bool) -> list[Encoded]: ...


class Child:
    """The loop of the model's process; `source` and `sink` are descriptors that carry frames."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._waiting: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._model: Model | None = None
        self._threads = 1
        self._rerankers: dict[str, Reranker] = {}
        self._asked: dict[str, bytes] = {}
        self._seconds = 0.0
        """What one passage took when token vectors were last made."""

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
            pieces = parted(frame.header["lengths"], frame.payload)
            if frame.header.get("op") == "rerank":
                return self._rerank(self._model, frame.header, pieces)
            texts = [piece.decode("utf-8", "replace") for piece in pieces]
            if frame.header.get("query"):
                made = [self._query(self._model, text) for text in texts]
            else:
                made = self._model.encode(texts, tokens=bool(frame.header.get("tokens")))
            lengths, payload = joined([part for one in made for part in one])
            return {"parts": lengths}, payload
        except MemorydError as error:
            told = {"error": error.message, "code": error.code, "next_step": error.next_step}
            return told | {"path": error.details.get("path", "")}, b""
        except Exception as error:  # noqa: BLE001 - border: whatever a library raises for one text is told, not fatal
            return {"error": f"{type(error).__name__}: {error}"[:2000], "code": "model-error"}, b""

    def _load(self, header: dict[str, Any]) -> dict[str, Any]:
        started = time.monotonic()
        self._threads = int(header["threads"])
        try:
            model = _bge_m3(header, self._threads) if header.get("model") == BGE_M3_KIND else _embedded(header)
        except ImportError as error:
            raise ModelFilesWrong(f"The embedding engine cannot be loaded: {error}.") from error
        model.embed("warm")
        self._model = model
        return_free_memory()
        return {
            "fingerprint": model.fingerprint,
            "batch_tokens": model.batch_tokens,
            "device": model.device,
            "seconds": time.monotonic() - started,
        }

    def _query(self, model: Model, text: str) -> Encoded:
        """What is made of a query; its token vectors stay here."""
        (made,) = model.encode([text], tokens=True)
        self._asked = dict([*self._asked.items(), (text, made.tokens)][-QUERIES_KEPT:])
        return made._replace(tokens=b"")

    def _rerank(self, model: Model, header: dict[str, Any], pieces: list[bytes]) -> tuple[dict[str, Any], bytes]:
        until = time.monotonic() + float(header["seconds"])
        query, *texts = (piece.decode("utf-8", "replace") for piece in (pieces[0], *pieces[1::2]))
        known, method = pieces[2::2], str(header["method"])
        if method == MAXSIM:
            return self._maxsim(model, query, texts, known, until)
        folder = method.partition(":")[2]
        if folder not in self._rerankers:
            from memoryd.models.reranker import Reranker

            self._rerankers[folder] = Reranker(Path(folder), threads=self._threads)
        scores = self._rerankers[folder].score(query, texts, until)
        return {
            "scores": scores,
            "reason": "" if scores else "the time allowed was over",
            "parts": [0] * len(texts),
        }, b""

    def _maxsim(
        self, model: Model, query: str, texts: list[str], known: list[bytes], until: float
    ) -> tuple[dict[str, Any], bytes]:
        """Score by token vectors, those that are missing made first where the time does for it."""
        from memoryd.models.maxsim import maxsim, unpack

        missing = [place for place, vectors in enumerate(known) if not vectors]
        made = [b""] * len(texts)
        for done, place in enumerate(missing):
            began = time.monotonic()
            left = len(missing) - done
            if began + self._seconds * left > until:
                reason = f"{left} of {len(texts)} passages have no token vectors yet, and the time allowed is too short"
                lengths, payload = joined(made)
                return {"scores": None, "reason": f"{reason} to make them", "parts": lengths}, payload
            made[place] = model.encode([texts[place]], tokens=True)[0].tokens
            self._seconds = time.monotonic() - began
        if query not in self._asked:
            self._query(model, query)
        asked = unpack(self._asked[query], model.dims)
        scores = [maxsim(asked, unpack(one or new, model.dims)) for one, new in zip(known, made, strict=True)]
        lengths, payload = joined(made)
        return {"scores": scores, "parts": lengths}, payload


def _embedded(header: dict[str, Any]) -> Model:
    from memoryd.models.embedded import EmbeddedModel

    named = header.get("files")
    files = ModelFiles(Path(named[0]), Path(named[1])) if named else locate()
    return EmbeddedModel.load(files, threads=int(header["threads"]))


def _bge_m3(header: dict[str, Any], threads: int) -> Model:
    from memoryd.models.bge_m3 import BgeM3Model

    store, precision = Path(header["store"]), str(header["precision"])
    return BgeM3Model.load(Path(header["folder"]), store, precision, threads=threads)


def volunteer() -> None:
    """Be the one that the kernel ends where memory runs out; any process may raise its own number."""
    try:
        Path("/proc/self/oom_score_adj").write_bytes(FIRST_TO_END)
    except OSError:
        return


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
    volunteer()
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    Child(source, sink).run()


if __name__ == "__main__":
    main()
