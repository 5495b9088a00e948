from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from memoryd.catalog.state import ANSWER_SECONDS, Intent, Recall, State
from memoryd.errors import FormatUnsupported
from tests.catalog.make import ruin_recalls

FIRST = Intent("op1", b"global/fact/a-12345678.md", "0" * 64, "c0ffee", 123, 1000.5)
SECOND = Intent("op1", b"global/fact/\xff.md", "1" * 64, None, 123, 1000.5)
OTHER = Intent("op2", b"b.md", "2" * 64, None, 0, 2000.0)


def copy_unclosed(path: Path, target: Path) -> Path:
    target.mkdir()
    for part in path.parent.glob("state.db*"):
        (target / part.name).write_bytes(part.read_bytes())
    return target / path.name


# --- intents


def test_an_intent_lives_until_it_is_dropped(state: State):
    state.intents.add(FIRST, SECOND)
    state.intents.add(OTHER)
    assert state.intents.all() == [FIRST, SECOND, OTHER]
    state.intents.name_git("op1", 777, 1001.25)
    assert [(item.pid, item.started) for item in state.intents.all()] == [(777, 1001.25), (777, 1001.25), (0, 2000.0)]
    state.intents.drop("op1")
    state.intents.drop("unknown")
    assert state.intents.all() == [OTHER]


def test_intents_of_one_write_are_noted_together_or_not_at_all(state: State):
    bad = Intent("op1", b"x", None, None, 0, 0.0)  # type: ignore[arg-type]
    with pytest.raises(sqlite3.IntegrityError):
        state.intents.add(FIRST, bad)
    assert state.intents.all() == []


def test_intents_survive_a_kill(tmp_path: Path):
    """What was noted before the kill is there afterwards, nothing was closed."""
    path = tmp_path / "state.db"
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from memoryd.catalog.state import Intent, State\n"
        "state = State(Path(sys.argv[1]))\n"
        f"state.intents.add({FIRST!r}, {OTHER!r})\n"
        "state.intents.drop('op2')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, path], check=False)
    assert done.returncode == -9
    state = State(path)
    assert state.intents.all() == [FIRST]
    assert state.set_aside is None
    state.close()


def test_intents_survive_a_restart(tmp_path: Path):
    state = State(tmp_path / "state.db")
    state.intents.add(FIRST, SECOND)
    state.close()
    state.close()
    again = State(tmp_path / "state.db")
    assert again.intents.all() == [FIRST, SECOND]
    again.close()


# --- recalls


def test_recalls_are_counted(state: State):
    state.recalls.add({"f1": Recall(2, 10.0), "f2": Recall(1, 10.0)})
    state.recalls.add({"f1": Recall(1, 5.0)})
    assert state.recalls.of(["f1", "f2", "f3"]) == {"f1": Recall(3, 10.0), "f2": Recall(1, 10.0)}
    state.recalls.add({})
    assert state.recalls.of([]) == {}


def test_recalls_counted_by_many_threads_lose_none(state: State):
    threads = [
        threading.Thread(target=lambda: [state.recalls.add({"f": Recall(1, 1.0)}) for _ in range(25)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state.recalls.of(["f"])["f"].amount == 200


# --- answers


def test_the_first_answer_stands(state: State):
    first = {"id": "m1", "note": "héllo \ud83d", "list": [1, None]}
    assert state.answers.recall("t1") is None
    assert state.answers.remember("t1", first, 100.0) == first
    assert state.answers.remember("t1", {"id": "m2"}, 101.0) == first
    assert state.answers.recall("t1") == first
    assert state.answers.recall("t2") is None


def test_of_two_threads_that_redeem_one_token_both_get_the_same_answer(state: State):
    barrier = threading.Barrier(8)
    given: list[dict] = []

    def redeem(number: int) -> None:
        barrier.wait()
        given.append(state.answers.remember("t", {"number": number}, 1.0))

    threads = [threading.Thread(target=redeem, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 8
    assert all(answer == given[0] for answer in given)


def test_an_answer_is_the_same_after_a_restart(tmp_path: Path):
    state = State(tmp_path / "state.db")
    state.answers.remember("t1", {"id": "m1"}, 100.0)
    state.close()
    again = State(tmp_path / "state.db")
    assert again.answers.remember("t1", {"id": "other"}, 200.0) == {"id": "m1"}
    again.close()


def test_answers_do_not_pile_up_for_ever(state: State):
    state.answers.remember("old", {"n": 1}, 0.0)
    state.answers.remember("young", {"n": 2}, 10.0)
    state.answers.remember("now", {"n": 3}, ANSWER_SECONDS + 5.0)
    assert state.answers.recall("old") is None
    assert state.answers.recall("young") == {"n": 2}
    late = State(state._db.path)
    assert late.answers.remember("young", {"n": 9}, 10 * ANSWER_SECONDS) == {"n": 2}
    late.close()


# --- damage


def test_case_15_a_garbage_state_is_set_aside_and_named(tmp_path: Path):
    """case 15: never silently lost."""
    path = tmp_path / "state.db"
    garbage = random.Random(3).randbytes(10_000)
    path.write_bytes(garbage)
    state = State(path)
    assert state.set_aside == tmp_path / "state.db.damaged-1"
    assert state.set_aside.read_bytes() == garbage
    assert "damaged" in state.damage
    assert state.carried == 0
    assert state.intents.all() == []
    state.intents.add(FIRST)
    assert state.problems() == []
    assert state.checkpoint()
    state.close()


def test_case_15_what_a_damaged_state_still_tells_is_carried_over(tmp_path: Path):
    """case 15: one table is destroyed, the others are read."""
    path = tmp_path / "state.db"
    state = State(path)
    state.intents.add(FIRST, SECOND)
    state.answers.remember("t1", {"id": "m1"}, 100.0)
    for start in range(0, 4000, 100):
        state.recalls.add({f"fact-{number}": Recall(1, 1.0) for number in range(start, start + 100)})
    state.close()
    ruin_recalls(path)
    again = State(path)
    assert again.set_aside is not None
    assert again.intents.all() == [FIRST, SECOND]
    assert again.answers.recall("t1") == {"id": "m1"}
    assert again.carried == 3
    again.close()


def test_case_15_a_malformed_log_keeps_what_stands_before_the_damage(tmp_path: Path):
    """case 15: the rows of the whole transactions are carried over, the file and its log are kept beside."""
    state = State(tmp_path / "state.db")
    for number in range(60):
        state.intents.add(Intent(f"op{number:02d}", b"x.md", "0" * 64, None, 0, float(number)))
    path = copy_unclosed(state._db.path, tmp_path / "killed")
    state.close()
    log = path.with_name("state.db-wal")
    data = bytearray(log.read_bytes())
    frames = (len(data) - 32) // 4120
    data[32 + (frames // 2) * 4120 + 500] ^= 1
    log.write_bytes(data)
    again = State(path)
    kept = again.intents.all()
    assert again.set_aside is not None
    assert again.set_aside.with_name("state.db.damaged-1-wal").exists()
    assert 10 < len(kept) < 60
    assert again.carried == len(kept)
    assert [item.id for item in kept] == [f"op{number:02d}" for number in range(len(kept))]
    again.close()


def test_case_15_a_log_without_its_file_is_kept(tmp_path: Path):
    """case 15: nothing can be read from it, but it is not deleted either."""
    state = State(tmp_path / "state.db")
    state.intents.add(FIRST)
    path = copy_unclosed(state._db.path, tmp_path / "killed")
    state.close()
    path.unlink()
    again = State(path)
    assert again.carried == 0
    assert again.damage
    assert path.with_name("state.db.damaged-1-wal").stat().st_size > 0
    again.close()


def test_a_newer_state_is_refused_and_kept(tmp_path: Path):
    path = tmp_path / "state.db"
    State(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=7")
    connection.close()
    with pytest.raises(FormatUnsupported):
        State(path)
    assert [item.name for item in tmp_path.iterdir()] == ["state.db"]


def test_what_is_erased_is_gone_from_the_file_too(tmp_path: Path):
    state = State(tmp_path / "state.db")
    state.recalls.add({"fact-of-the-secret": Recall(1, 1.0), "other": Recall(1, 1.0)})
    state.answers.remember("one", {"title": "Käse hunter2", "id": "x"}, 1.0)
    state.answers.remember("two", {"title": "harmless"}, 1.0)
    assert state.erase(["fact-of-the-secret"], ["Käse hunter2"]) == 2
    assert state.answers.recall("one") is None and state.answers.recall("two") == {"title": "harmless"}
    assert set(state.recalls.of(["fact-of-the-secret", "other"])) == {"other"}
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert b"hunter2" not in data and b"fact-of-the-secret" not in data
    state.close()
