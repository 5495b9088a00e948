"""Is every acknowledged memory there exactly once when daemon, git and model are killed under five busy sessions?"""

from __future__ import annotations

import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.crash.scale import scaled
from tests.daemons import PATIENCE, Proxy, Stack, stack_in, wait_for

SESSIONS, ADDS = 5, 10
KILLS = ["daemon"] * scaled(2, 4) + ["git"] * scaled(4, 8) + ["host"] * scaled(2, 4)
RESENT = {-31001, -31002, -32002}
"""Outcome unknown, not sent, shutting down: the client sends the same content again."""
WRITTEN = {"added", "conflicts", "exists"}
TRIES = 30
SUBJECTS = ["walrus", "heron", "lynx", "otter", "badger"]
STORIES = [
    "keeps its invoices in a ledger that closes at midnight",
    "talks to the printer over a serial cable",
    "was rewritten after the cache returned yesterday's prices",
    "needs two reviewers before anything reaches customers",
    "loses its colours when the theme is loaded late",
    "measures rainfall once an hour and rounds up",
    "refuses passwords shorter than a sentence",
    "compresses photographs before it mails them",
    "counts sheep whenever the queue is empty",
    "starts with an empty map and learns the streets by driving",
]


def story(session: int, number: int) -> str:
    return f"The {SUBJECTS[session]} service {STORIES[number]}, ticket {SUBJECTS[session]}{number}x."


class Storm:
    """Five sessions that add, and somebody who kills at random moments of their work."""

    def __init__(self, stack: Stack, seed: int) -> None:
        self.stack = stack
        self.turn = random.Random(seed)
        self.told: dict[str, str] = {}
        """The id that each content was acknowledged with."""
        self.killed: Counter[str] = Counter()
        self.retried: Counter[str] = Counter()
        self.seen: set[psutil.Process] = set()
        self.wrong: list[str] = []
        self._over = threading.Event()

    def rage(self) -> None:
        proxies = [self.stack.session(cwd=self.stack.starter.parent) for _ in range(SESSIONS)]
        adders = [threading.Thread(target=self._adds, args=one) for one in enumerate(proxies)]
        killer = threading.Thread(target=self._kills)
        for thread in (*adders, killer):
            thread.start()
        for thread in adders:
            thread.join()
        self._over.set()
        killer.join()
        assert not self.wrong, "\n".join(self.wrong)

    def _adds(self, session: int, proxy: Proxy) -> None:
        try:
            for number in range(ADDS):
                self._add(proxy, story(session, number))
        except (AssertionError, TimeoutError, OSError) as error:
            self.wrong.append(f"session {session}: {error!r}")

    def _add(self, proxy: Proxy, content: str) -> None:
        """Send it until it is acknowledged."""
        for _ in range(TRIES):
            asked = proxy.call_id("memory_add", content=content, type="fact", scope="global")
            answer = proxy.answer(asked, 2 * PATIENCE)
            if "error" in answer:
                assert answer["error"]["code"] in RESENT, answer
                self.retried[str(answer["error"]["code"])] += 1
                continue
            said = answer["result"]["structuredContent"]
            if not answer["result"].get("isError"):
                assert said["outcome"] in WRITTEN, said
                self.told[content] = said["id"]
                return
            # its git was killed, or another one's has not let go yet: refused as a whole, which the error says
            if said["code"] not in {"git-failed", "git-locked", "vault-busy"}:
                self.wrong.append(str(said))
                return
            self.retried[said["code"]] += 1
            time.sleep(0.05)
        raise AssertionError(f"not acknowledged after {TRIES} tries: {content}")

    def _kills(self) -> None:
        """Each kill waits until so many adds were acknowledged, and a moment longer."""
        order = self.turn.sample(KILLS, len(KILLS))
        moments = sorted(self.turn.sample(range(1, SESSIONS * ADDS - 5), len(KILLS)))
        for kind, moment in zip(order, moments, strict=True):
            while len(self.told) < moment and not self._over.is_set():
                time.sleep(0.002)
            time.sleep(self.turn.random() * 0.08)
            while not self._over.is_set() and not self._kill(kind):
                time.sleep(0)

    def _kill(self, kind: str) -> bool:
        """SIGKILL what runs below the daemon of this home; False while nothing of the kind does."""
        holder = self.stack.holder()
        if holder is None:
            return False
        with suppress(psutil.NoSuchProcess):
            daemon = psutil.Process(holder)
            below = daemon.children(recursive=True)
            self.seen.update(below)
            chosen = {
                "daemon": [daemon],
                "git": [one for one in below if one.name().startswith("git")],
                "host": [one for one in below if "memoryd.models.child" in one.cmdline()],
            }[kind]
            if chosen:
                os.kill(chosen[0].pid, signal.SIGKILL)
                self.killed[kind] += 1
                return True
        return False


def git(stack: Stack, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(stack.home / "vault"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def files_of(stack: Stack) -> dict[str, list[str]]:
    """The memory files that hold each content, by content."""
    found: dict[str, list[str]] = {}
    vault = stack.home / "vault"
    for path in vault.rglob("*.md"):
        found.setdefault(path.read_text().rsplit("---\n", 1)[1].strip(), []).append(str(path.relative_to(vault)))
    return found


def check_vault(stack: Stack, told: dict[str, str]) -> None:
    files = files_of(stack)
    assert {content: len(paths) for content, paths in files.items()} == dict.fromkeys(told, 1)
    added = git(stack, "log", "--format=", "--name-only", "--diff-filter=A").split()
    assert Counter(added) == Counter(paths[0] for paths in files.values()), "one commit adds each"
    assert int(git(stack, "rev-list", "--count", "HEAD")) == len(told), "and there is no other commit"
    assert not re.search("error|missing|broken|corrupt", git(stack, "fsck", "--full", "--strict"))
    assert git(stack, "status", "--porcelain") == ""


def check_leftovers(stack: Stack) -> None:
    """No lock or half-written file, but for the files that the kernel's locks hang on; no intent.

    Nameless objects of a killed git (`objects/xx/tmp_obj_*`) are git's own to prune.
    """
    names = ("*.lock", "*.tmp", "next-index-*")
    left = {path.relative_to(stack.home) for name in names for path in stack.home.rglob(name)}
    kernel = {Path("daemon.lock"), Path("start.lock"), *(one for one in left if one.name.startswith(".tantivy-"))}
    assert left <= kernel, left
    assert list((stack.home / "store" / "tmp").iterdir()) == []
    with sqlite3.connect(f"file:{stack.home / 'state.db'}?mode=ro", uri=True) as state:
        assert state.execute("SELECT count(*) FROM intents").fetchone() == (0,)


def check_findable(stack: Stack, told: dict[str, str]) -> None:
    asking = stack.session(cwd=stack.starter.parent)
    wait_for(lambda: stack.http("GET", "/readyz")[0] == 200, 60, "never ready again")
    for content, id in told.items():
        ticket = content.split()[-1].rstrip(".")
        for query, mode in ((ticket, "keyword"), (content, "semantic")):
            answer = asking.call("memory_search", query=query, mode=mode, timeout=60)
            assert answer["index"]["degraded"] == [], answer["index"]
            assert id in [one["id"] for one in answer["memories"]], (query, mode, answer)


@pytest.mark.parametrize("seed", range(scaled(1, 8)))
def test_fifty_adds_from_five_sessions_with_kill_9_of_daemon_git_and_host(tmp_path: Path, seed: int):
    with stack_in(tmp_path, fixture=False) as stack:
        storm = Storm(stack, seed)
        storm.rage()
        assert len(storm.told) == len(set(storm.told.values())) == SESSIONS * ADDS
        assert set(storm.killed) == set(KILLS), storm.killed
        check_findable(stack, storm.told)
        check_vault(stack, storm.told)
        stack.end()
        check_leftovers(stack)
        command = [sys.executable, "-m", "memoryd", "--home", str(stack.home), "check"]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        wait_for(lambda: not [one for one in storm.seen if one.is_running()], 10, "a child outlived its daemon")
