"""Behaviour of memoryd.models.child as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memoryd.models.frames import Frame, decode, encode
from memoryd.models.identity import EMBEDDED, locate
from memoryd.models.process import COMMAND, clean_environment
from tests.models.conftest import fragile, gone, until


def encode_of(text: bytes) -> dict:
    """The header of a request for one text."""
    return {"op": "encode", "lengths": [len(text)]}


class Pipe:
    """A child and both ends of its pipe."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, cwd=cwd
        )

    def ask(self, header: dict, payload: bytes = b"") -> Frame | None:
        self.tell(header, payload)
        return decode(self.process.stdout.read)

    def tell(self, header: dict, payload: bytes = b"") -> None:
        self.process.stdin.write(encode(Frame(header, payload)))

    def __enter__(self) -> Pipe:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Pipe]:
    with Pipe([sys.executable, *COMMAND], tmp_path) as pipe:
        yield pipe


def test_load_then_embed(child):
    loaded = child.ask({"op": "load", "threads": 1}).header
    assert loaded["fingerprint"] == EMBEDDED.fingerprint and loaded["seconds"] > 0
    answer = child.ask(encode_of(b"some text"), b"some text")
    assert answer.header == {"parts": [EMBEDDED.dims * 4, 0, 0]} and len(answer.payload) == EMBEDDED.dims * 4
    assert child.ask(encode_of(b"some text"), b"some text") == answer


def test_embed_before_load_is_told(child):
    assert child.ask(encode_of(b"text"), b"text").header["code"] == "model-unavailable"


def test_h23_files_that_are_missing_are_named(child, tmp_path):
    missing = str(tmp_path / "gone.onnx")
    answer = child.ask({"op": "load", "threads": 1, "files": [missing, str(locate().tokenizer)]}).header
    assert answer["code"] == "model-files-wrong" and missing in answer["error"]


def test_it_ends_with_its_stdin_without_a_word(child):
    child.process.stdin.close()
    assert child.process.wait(10) == 0
    assert child.process.stdout.read() == b""


def test_it_ends_in_the_middle_of_its_work(tmp_path):
    """A daemon that is gone is not waited for, even while a text is in the model."""
    with Pipe(fragile(), tmp_path) as pipe:
        pipe.ask({"op": "load", "threads": 1})
        pipe.tell(encode_of(b"FOREVER"), b"FOREVER")
        pipe.process.stdin.close()
        assert pipe.process.wait(10) == 0


def test_noise_on_its_stdin_ends_it(child):
    child.process.stdin.write(b"GET / HTTP/1.1\r\n\r\n")
    assert child.process.wait(10) == 0


def test_an_interrupt_is_not_meant_for_it(child):
    child.ask({"op": "load", "threads": 1})
    child.process.send_signal(signal.SIGINT)
    assert len(child.ask(encode_of(b"still here"), b"still here").payload) == EMBEDDED.dims * 4


def test_case_54_what_libraries_print_goes_to_stderr(tmp_path):
    """Prints of Python and writes of C code to descriptor 1 never reach the frames."""
    code = (
        "import os, memoryd.models.embedded as e, memoryd.models.child as c; plain = e.EmbeddedModel._hidden\n"
        "def hidden(self, text):\n"
        "    print('noise from python', flush=True); os.write(1, b'noise from c'); return plain(self, text)\n"
        "e.EmbeddedModel._hidden = hidden; c.main()"
    )
    with Pipe([sys.executable, "-P", "-c", code], tmp_path) as pipe:
        pipe.ask({"op": "load", "threads": 1})
        assert len(pipe.ask(encode_of(b"text"), b"text").payload) == EMBEDDED.dims * 4
        pipe.process.stdin.close()
        assert pipe.process.stdout.read() == b""
        errors = pipe.process.stderr.read()
    assert b"noise from python" in errors and b"noise from c" in errors


def test_a_text_that_a_library_refuses_is_told_and_the_child_lives(tmp_path):
    with Pipe(fragile(), tmp_path) as pipe:
        pipe.ask({"op": "load", "threads": 1})
        assert "refused" in pipe.ask(encode_of(b"REFUSED"), b"REFUSED").header["error"]
        assert pipe.ask(encode_of(b"fine"), b"fine").payload


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "GIT_DIR"])
def test_the_environment_is_cleaned(name):
    assert name not in clean_environment({name: "x", "HOME": "/h"})
    assert clean_environment({name: "x", "HOME": "/h"})["HOME"] == "/h"


def test_case_50_modules_beside_the_caller_are_not_loaded(tmp_path):
    """Started in a folder that holds json.py and queue.py of somebody else."""
    for name in ("json.py", "queue.py", "config.py", "numpy.py"):
        (tmp_path / name).write_text("raise SystemExit('a stranger was imported')")
    with Pipe([sys.executable, *COMMAND], tmp_path) as pipe:
        assert pipe.ask({"op": "load", "threads": 1}).header["fingerprint"] == EMBEDDED.fingerprint


@pytest.mark.parametrize("busy", ["", "FOREVER"])
def test_case_52_no_orphan_stays_when_the_parent_is_killed(tmp_path, busy):
    """kill -9 of the daemon, idle or with a text in the model: the child is gone within seconds."""
    code = f"""
import sys, threading, time
from memoryd.models.host import ModelHost
host = ModelHost(threads=1, idle_seconds=600, log=None, command={fragile()!r})
host.embed_query("ready", 60)
print(host.status()["pid"], flush=True)
if {busy!r}:
    threading.Thread(target=host.embed_query, args=({busy!r}, 60), daemon=True).start()
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as parent:
        try:
            pid = int(parent.stdout.readline())
            assert not gone(pid)
            assert os.getsid(pid) == pid
        finally:
            parent.kill()
    until(lambda: gone(pid), 10)
