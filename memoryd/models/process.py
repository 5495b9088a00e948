"""How is the child started, asked, and ended, so that it never hangs the daemon and never outlives it?"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from memoryd.errors import ModelFilesWrong, ModelUnavailable
from memoryd.files import write_all
from memoryd.models.frames import Frame, decode, encode, joined, parted
from memoryd.models.identity import ModelSpec
from memoryd.records import Encoded

COMMAND = ("-P", "-m", "memoryd.models.child")
REFUSED_VARIABLES = ("PYTHON", "LD_", "GIT_")
LOAD_SECONDS = 600.0
"""A first load of BGE-M3 also writes its weights anew, in another precision."""
FORWARD_SECONDS = 120.0
"""A child that says nothing for so long counts as dead."""
QUERY_SECONDS = 30.0
"""The same for a query: one short text, for which a session waits."""
END_SECONDS = 1.0


class ChildFailed(Exception):
    """The child died, hung or spoke nonsense; it has to be ended and started again."""


class TextFailed(Exception):
    """A library refused this one text; the child lives."""


class ModelProcess:
    """One child at a time. `kill`, `alive` and `pid` may be called from any thread, the rest from one."""

    def __init__(self, spec: ModelSpec, *, command: Sequence[str] | None, threads: int, log: Path | None) -> None:
        self._spec = spec
        self._command = list(command) if command is not None else [sys.executable, *COMMAND]
        self._threads = threads
        self._log = log
        self._lock = threading.Lock()
        self._killed = False
        self._child: subprocess.Popen[bytes] | None = None
        self.ready = False
        self.load_seconds: float | None = None
        self.batch_tokens = 0
        """How many tokens, padding counted, one forward takes; 0: one text a forward."""
        self.device: str | None = None

    @property
    def pid(self) -> int | None:
        """For people only."""
        child = self._child
        return child.pid if child is not None else None

    def started(self) -> bool:
        """Whether there is a child to end, dead or alive."""
        return self._child is not None

    def alive(self) -> bool:
        """Whether the child runs right now."""
        child = self._child
        return child is not None and child.poll() is None

    def start(self) -> None:
        """Start and load. Raises ModelFilesWrong where the files are to blame, else ChildFailed."""
        self._spawn()
        header = {"op": "load", "threads": self._threads, **self._spec.load}
        answer = self._ask(Frame(header), LOAD_SECONDS).header
        if answer.get("code") == ModelFilesWrong.code:
            step = str(answer["next_step"]) if "next_step" in answer else None
            raise ModelFilesWrong(str(answer.get("error")), next_step=step, path=str(answer.get("path", "")))
        if answer.get("fingerprint") != self._spec.identity.fingerprint:
            raise ChildFailed(f"The model's process did not load: {answer.get('error', 'another model')}.")
        seconds = answer.get("seconds")
        self.load_seconds = float(seconds) if isinstance(seconds, (int, float)) else None
        self.batch_tokens = int(answer.get("batch_tokens", 0))
        self.device = str(answer.get("device", "cpu"))
        self.ready = True

    def encode(self, texts: Sequence[str], *, tokens: bool = False, query: bool = False) -> list[Encoded]:
        """One forward over all texts; of a query the child keeps the token vectors for a reranking.

        Raises TextFailed (of one or more of them), ChildFailed.
        """
        lengths, payload = joined([self._counted(text) for text in texts])
        header = {"op": "encode", "lengths": lengths, "tokens": tokens, "query": query}
        answer = self._asked(header, payload, QUERY_SECONDS if query else FORWARD_SECONDS)
        parts = self._parts(answer)
        found = [Encoded(*parts[start : start + 3]) for start in range(0, len(parts), 3)]
        if len(found) != len(texts) or any(len(one.dense) != self._spec.identity.dims * 4 for one in found):
            raise ChildFailed(f"The model's process answered with {len(answer.payload)} bytes.")
        return found

    def rerank(
        self, method: str, query: str, candidates: Sequence[tuple[str, bytes]], seconds: float
    ) -> tuple[list[float] | None, list[bytes], str]:
        """Scores of (text, token vectors or b"") against a query within `seconds` of the child's time.

        Also the token vectors that had to be made; scores are None with a reason where the time does not do.
        Raises TextFailed, ChildFailed.
        """
        each = [part for text, known in candidates for part in (self._counted(text), known)]
        lengths, payload = joined([self._counted(query), *each])
        header = {"op": "rerank", "method": method, "lengths": lengths, "seconds": seconds}
        answer = self._asked(header, payload, FORWARD_SECONDS)
        scores, made = answer.header.get("scores"), self._parts(answer)
        if len(made) != len(candidates) or (scores is not None and len(scores) != len(candidates)):
            raise ChildFailed("The model's process answered for other passages.")
        return scores, made, str(answer.header.get("reason", ""))

    def _counted(self, text: str) -> bytes:
        return text[: self._spec.identity.max_characters].encode("utf-8", "replace")

    def _asked(self, header: dict[str, Any], payload: bytes, seconds: float) -> Frame:
        try:
            answer = self._ask(Frame(header, payload), seconds)
        except ModelUnavailable as error:  # over the limits of a frame: nothing was sent
            raise TextFailed(error.message) from error
        if "error" in answer.header:
            raise TextFailed(f"The model refused a text: {answer.header['error']}.")
        return answer

    def _parts(self, answer: Frame) -> list[bytes]:
        try:
            return parted(answer.header["parts"], answer.payload)
        except (KeyError, TypeError, ModelUnavailable) as error:
            raise ChildFailed(f"The model's process spoke nonsense: {error}") from error

    def kill(self) -> None:
        """End the child at once, for good: a later `start` fails."""
        with self._lock:
            self._killed = True
            if self._child is not None:
                self._child.kill()

    def end(self) -> None:
        """Close the child's stdin, which ends it, and wait; kill it where that does not help."""
        with self._lock:
            child, self._child, self.ready = self._child, None, False
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def _spawn(self) -> None:
        with self._lock:
            if self._killed:
                raise ChildFailed("The model's host is closed.")
            log = _open_log(self._log)
            try:
                # Unbuffered, because the pipe's descriptors are polled and read directly.
                self._child = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                    cwd="/",
                    env=clean_environment(os.environ),
                    start_new_session=True,
                )
            except OSError as error:
                raise ChildFailed(f"The model's process cannot start: {error.strerror}.") from error
            finally:
                os.close(log)

    def _ask(self, frame: Frame, seconds: float) -> Frame:
        child = self._child
        assert child is not None and child.stdin is not None and child.stdout is not None
        deadline = time.monotonic() + seconds
        source = child.stdout.fileno()
        poll = select.poll()
        poll.register(source, select.POLLIN)

        def read(count: int) -> bytes:
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise ChildFailed(f"The model's process said nothing for {seconds:g} s.")
            return os.read(source, min(count, 1 << 20))

        message = encode(frame)
        try:
            write_all(child.stdin.fileno(), message)
            answer = decode(read)
        except ChildFailed:
            raise
        except (OSError, ModelUnavailable) as error:
            raise ChildFailed(f"The connection to the model's process broke: {error}") from error
        if answer is None:
            raise ChildFailed("The model's process ended.")
        return answer


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What the child may see: nothing that changes which code Python or the linker loads."""
    kept = {name: value for name, value in environment.items() if not name.startswith(REFUSED_VARIABLES)}
    return kept | {"TOKENIZERS_PARALLELISM": "false"}


def _open_log(path: Path | None) -> int:
    if path is None:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
