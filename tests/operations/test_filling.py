"""Is a process that fills a part followed to its end, whatever end that is?"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing

import pytest

from memoryd.errors import IndexProblem
from memoryd.operations.filling import COMMAND, Filling, orders_for
from memoryd.operations.home import index_identity
from memoryd.operations.ingest import Seen, store_documents


@pytest.fixture
def orders(home):
    store_documents(home, [Seen("notes", b"a.md", "global", "document", b"The walrus sleeps.")])
    path = home.generations.prepare(index_identity(home))
    return orders_for(home, "lexical", path / "lexical", home.documents.last_seq())


def saying(lines):
    """A stand-in for the process, to say what the real one says only when something is broken."""
    return [sys.executable, "-c", f"import sys; sys.stdin.readline(); sys.stdout.write({lines!r})"]


def test_it_tells_what_it_did(home, root, orders):
    with closing(Filling(orders, root)) as filling:
        assert filling.wait(lambda: False)["count"] == 1
        assert (filling.done, filling.running()) == (1, False)


@pytest.mark.parametrize("said, why", [("", "ended with 0"), ('{"error": {"message": "No room."}}\n', "No room")])
def test_an_end_without_a_result_is_a_problem(root, orders, said, why):
    with closing(Filling(orders, root, saying(said))) as filling, pytest.raises(IndexProblem, match=why):
        filling.outcome()


def test_a_typed_error_of_the_process_is_told(root, orders):
    from dataclasses import replace

    gone = replace(orders, target=orders.target + "-gone")
    with closing(Filling(gone, root)) as filling, pytest.raises(IndexProblem, match="lexical"):
        filling.outcome()


def test_a_stop_ends_it_at_once(root, orders):
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with closing(Filling(orders, root, command)) as filling:
        assert filling.wait(lambda: True) is None
        assert not filling.running()


def test_it_ends_when_whoever_started_it_is_gone():
    """Its stdin ends before it has its orders, or afterwards."""
    process = subprocess.Popen(
        [sys.executable, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    process.stdin.close()
    until = time.monotonic() + 20
    while process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert process.returncode == 1
