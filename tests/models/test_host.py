"""Behaviour of memoryd.models.host with the real model; children are really killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memoryd.digest import sha256_hex
from memoryd.errors import ModelFilesWrong, ModelUnavailable, TextPoisoned
from memoryd.models.identity import EMBEDDED, ModelFiles, locate
from tests.models.conftest import fragile, gone, until

NEVER = lambda: False  # noqa: E731


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_nothing_runs_before_the_first_text(make):
    host = make()
    assert host.status() == {
        "state": "off",
        "pid": None,
        "name": "all-MiniLM-L6-v2-int8",
        "why": "it is the one that memoryd brings along",
        "dims": 384,
        "language": "en",
        "device": None,
        "queued": 0,
        "restarts": 0,
        "poisoned": 0,
        "last_error": None,
        "loaded_seconds": None,
        "load_seconds": None,
    }
    assert host.identity == EMBEDDED


def test_a_query_is_begun_and_waited_for_later(shared):
    first, second = (shared.begin_query(f"begun {number}") for number in (1, 2))
    assert second(60) != first(60) == shared.begin_query("begun 1")(0)
    assert first(60).dense == shared.embed_query("begun 1", 0)


def test_queries_and_passages_give_the_same_vector(shared):
    (passage,) = shared.embed_passages(["the same words"], NEVER)
    assert shared.embed_query("the same words", 60) == passage
    assert len(passage) == EMBEDDED.dims * 4
    assert shared.embed_passages([], NEVER) == []
    status = shared.status()
    assert status["state"] == "ready" and not gone(status["pid"]) and status["loaded_seconds"] >= 0


def test_h22_any_length_and_any_characters_pass(shared):
    texts = ["x" * 20_000_000, "word " * 1_000_000, "\ud800 lone", "nul \x00", " "]
    assert all(vector is not None for vector in shared.embed_passages(texts, NEVER))
    assert shared.status()["restarts"] == 0


def test_case_48_concurrent_first_queries_load_the_model_once(make, tmp_path):
    """Case 48."""
    host = make()
    with ThreadPoolExecutor(8) as pool:
        vectors = list(pool.map(lambda n: host.embed_query(f"query {n % 3}", 60), range(8)))
    assert len(set(vectors)) == 3
    assert host.status()["restarts"] == 0
    assert host.status()["pid"] in children_of(os.getpid())
    loads = [
        pid for pid in children_of(os.getpid()) if "memoryd.models.child" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    assert loads.count(host.status()["pid"]) == 1


def test_h21_many_threads_get_what_one_thread_gets(make, shared):
    """8 threads with 25 texts of different lengths each, while passages are embedded, against a serial run."""
    host = make()
    texts = [[f"thread {t} text {n} " + "more words " * ((t + n) % 5) for n in range(25)] for t in range(8)]
    stop = threading.Event()
    background = threading.Thread(target=_feed, args=(host, stop))
    background.start()
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda mine: [host.embed_query(text, 120) for text in mine], texts))
    stop.set()
    background.join()
    flat = [text for mine in texts for text in mine]
    assert [vector for mine in found for vector in mine] == shared.embed_passages(flat, NEVER)


def _feed(host, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        assert all(host.embed_passages([f"passage {number}", "words " * 20], NEVER))


def test_a_query_overtakes_waiting_passages(make):
    host = make(command=fragile())
    host.embed_query("ready", 60)
    texts = [f"SLOW passage {n}" for n in range(6)]
    done: list[float] = []
    feeder = threading.Thread(target=lambda: (host.embed_passages(texts, NEVER), done.append(time.monotonic())))
    feeder.start()
    until(lambda: host.status()["queued"] >= 5)
    host.embed_query("first of all", 60)
    assert not done and host.status()["queued"] >= 3
    feeder.join()


def test_a_query_is_waited_for_no_longer_than_asked_and_the_work_goes_on(make):
    host = make(command=fragile())
    with pytest.raises(ModelUnavailable, match=r"0\.01 s"):
        host.embed_query("SLOW question", 0.01)
    until(lambda: host.status()["queued"] == 0)
    assert host.embed_query("SLOW question", 0.0)


def test_waiting_for_the_same_query_asks_once(make):
    host = make(command=fragile())
    host.embed_query("ready", 60)

    def ask(_: int) -> str:
        with pytest.raises(ModelUnavailable) as caught:
            host.embed_query("FOREVER and shared", 1.0)
        return caught.value.message

    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(ask, range(8)))) == 8
    assert host.status()["queued"] == 1


def test_the_child_ends_when_idle_and_comes_back(make):
    host = make(idle_seconds=0.2)
    first = host.embed_query("one", 60)
    pid = host.status()["pid"]
    until(lambda: host.status()["state"] == "off" and gone(pid))
    assert host.status()["restarts"] == 0
    assert host.embed_passages(["one"], NEVER) == [first]
    assert host.status()["pid"] != pid


def test_idle_time_is_that_of_the_clock(make):
    now = [100.0]
    host = make(idle_seconds=900, clock=lambda: now[0])
    host.embed_query("one", 60)
    now[0] += 899
    time.sleep(1.2)
    assert host.status()["state"] == "ready" and host.status()["loaded_seconds"] >= 899
    now[0] += 2
    until(lambda: host.status()["state"] == "off")


def test_a_killed_child_is_started_again(make):
    """kill -9 while nothing is asked: the next query finds its vector, and no text is blamed."""
    host = make()
    first = host.embed_query("one", 60)
    pid = host.status()["pid"]
    for _ in range(2):
        kill(pid)
        until(lambda pid=pid: gone(pid))
        assert host.embed_passages(["one"], NEVER) == [first]
        pid = host.status()["pid"]
    assert host.status()["restarts"] == 2 and host.poisoned() == frozenset()


def test_work_is_kept_when_the_child_is_killed_in_the_middle(make, shared):
    host = make(command=fragile())
    host.embed_query("ready", 60)
    texts = ["SLOW one", "two", "three"]
    found: list[list[bytes | None]] = []
    feeder = threading.Thread(target=lambda: found.append(host.embed_passages(texts, NEVER)))
    feeder.start()
    until(lambda: host.status()["queued"] == 3)
    time.sleep(0.1)
    kill(host.status()["pid"])
    feeder.join()
    assert host.status()["restarts"] == 1 and "process" in host.status()["last_error"]
    assert found == [shared.embed_passages(texts, NEVER)]


def test_a_text_whose_child_dies_twice_is_poisoned(make):
    host = make(command=fragile())
    good, deadly, other = host.embed_passages(["good", "a DEADLY text", "other"], NEVER)
    assert good and other and deadly is None
    assert host.status()["restarts"] == 2
    assert host.poisoned() == {sha256_hex(b"a DEADLY text")}
    assert host.embed_passages(["a DEADLY text"], NEVER) == [None]
    assert host.status()["restarts"] == 2
    with pytest.raises(TextPoisoned):
        host.embed_query("a DEADLY text", 60)


def test_a_query_whose_child_dies_twice_is_told_so(make):
    host = make(command=fragile())
    for _ in range(2):
        with pytest.raises(TextPoisoned):
            host.embed_query("DEADLY question", 60)
    assert host.status()["restarts"] == 2 and host.status()["poisoned"] == 1
    assert host.poisoned() == frozenset(), "no passage is missing in an index"
    assert host.embed_query("fine", 60)


def test_a_text_that_a_library_refuses_costs_no_restart(make):
    host = make(command=fragile())
    assert host.embed_passages(["REFUSED", "fine"], NEVER)[0] is None
    assert host.status()["restarts"] == 0


def test_a_child_that_never_starts_costs_patience_not_the_caller(make):
    host = make(command=[sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(ModelUnavailable):
        host.embed_query("one", 1.0)
    status = host.status()
    assert 1 <= status["restarts"] <= 6, "the wait between starts grows"
    assert status["last_error"] and status["queued"] == 1


def test_a_command_that_does_not_exist_is_told(make):
    host = make(command=["/no/such/python"])
    with pytest.raises(ModelUnavailable):
        host.embed_query("one", 0.3)
    assert "cannot start" in host.status()["last_error"]


def test_a_child_that_talks_nonsense_is_ended(make):
    host = make(command=[sys.executable, "-c", "import sys, time; print('hello ' * 100, flush=True); time.sleep(60)"])
    with pytest.raises(ModelUnavailable):
        host.embed_query("one", 0.5)
    until(lambda: host.status()["restarts"] >= 1)
    assert "broke" in host.status()["last_error"]


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_h23_wrong_files_give_one_clear_error_at_once(make, tmp_path, damage):
    """H23: one file of the model is missing, cut or other bytes."""
    files = ModelFiles(tmp_path / "model.onnx", locate().tokenizer)
    if damage == "truncated":
        files.weights.write_bytes(locate().weights.read_bytes()[:-100])
    host = make(files=files)
    for _ in range(2):
        with pytest.raises(ModelFilesWrong) as caught:
            host.embed_query("one", 60)
        assert str(files.weights) in caught.value.message and "Reinstall" in caught.value.next_step
    with pytest.raises(ModelFilesWrong):
        host.embed_passages(["one"], NEVER)
    assert host.status()["state"] == "failed" and str(files.weights) in host.status()["last_error"]
    assert host.status()["queued"] == 0


def test_h23_files_put_right_are_found_after_a_while(make, tmp_path):
    now = [0.0]
    files = ModelFiles(tmp_path / "model.onnx", locate().tokenizer)
    host = make(files=files, clock=lambda: now[0])
    with pytest.raises(ModelFilesWrong):
        host.embed_query("one", 60)
    files.weights.write_bytes(locate().weights.read_bytes())
    now[0] += 31
    assert host.embed_query("one", 60)
    assert host.status()["state"] == "ready"


def test_cancelled_passages_come_back_as_far_as_they_are(make):
    host = make(command=fragile())
    host.embed_query("ready", 60)
    stop = threading.Event()
    found: list[list[bytes | None]] = []
    texts = ["quick", *[f"SLOW {n}" for n in range(20)]]
    feeder = threading.Thread(target=lambda: found.append(host.embed_passages(texts, stop.is_set)))
    feeder.start()
    until(lambda: host.status()["queued"] <= 20)
    time.sleep(0.1)
    stop.set()
    feeder.join(5)
    assert not feeder.is_alive()
    assert found[0][0] is not None and found[0][-1] is None
    until(lambda: host.status()["queued"] == 0, 5)


@pytest.mark.parametrize("when", ["loading", "working"])
def test_case_59_close_ends_everything_in_bounded_time(make, when):
    host = make(command=fragile())
    if when != "loading":
        host.embed_query("ready", 60)
    errors: list[Exception] = []

    def ask(text: str) -> None:
        try:
            host.embed_query(text, 60)
        except ModelUnavailable as error:
            errors.append(error)

    askers = [threading.Thread(target=ask, args=(f"FOREVER {n}",)) for n in range(4)]
    for asker in askers:
        asker.start()
    until(lambda: host.status()["pid"] is not None and host.status()["queued"] == 4)
    pid = host.status()["pid"]
    host.close()
    for asker in askers:
        asker.join(10)
        assert not asker.is_alive()
    assert len(errors) == 4 and gone(pid)
    assert host.status()["state"] == "closed"
    host.close()


def test_a_closed_host_refuses(make):
    host = make()
    host.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        host.embed_query("one", 1)
    with pytest.raises(ModelUnavailable, match="closed"):
        host.embed_passages(["one"], NEVER)


def test_case_57_status_answers_while_the_model_loads(make):
    host = make()
    asker = threading.Thread(target=host.embed_query, args=("one", 60))
    asker.start()
    states = []
    while asker.is_alive():
        states.append(host.status()["state"])
        time.sleep(0.002)
    assert states.count("loading") > 3


def test_the_childs_words_go_to_the_log(make, tmp_path):
    log = tmp_path / "child.log"
    host = make(command=[sys.executable, "-c", "import sys; print('why it failed', file=sys.stderr)"], log=log)
    with pytest.raises(ModelUnavailable):
        host.embed_query("one", 0.5)
    until(lambda: b"why it failed" in log.read_bytes())
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_poisoned_text_within_a_batch_fails_alone(make, shared):
    """Twenty texts go into the model together; the one that kills and the one that is refused cost only themselves."""
    host = make(command=fragile(batch_tokens=4096))
    host.embed_query("ready", 60)
    texts = [f"text {n}" for n in range(20)]
    texts[7], texts[13] = "a DEADLY text", "REFUSED"
    found = host.embed_passages(texts, NEVER)
    assert [place for place, vector in enumerate(found) if vector is None] == [7, 13]
    good = [one for one in texts if one not in ("a DEADLY text", "REFUSED")]
    assert [vector for vector in found if vector] == shared.embed_passages(good, NEVER)
    assert host.poisoned() == {sha256_hex(b"a DEADLY text"), sha256_hex(b"REFUSED")}


def test_a_child_that_the_kernel_ends_in_the_middle_of_a_batch_comes_back_by_itself(make, tmp_path, shared):
    """Out of memory: the kernel kills without a word, and what was in the model is done again."""
    host = make(command=fragile(4096, tmp_path / "killed"))
    host.embed_query("ready", 60)
    texts = [f"text {n}" for n in range(5)] + ["ONCE"]
    assert host.embed_passages(texts, NEVER) == shared.embed_passages(texts, NEVER)
    assert host.status()["restarts"] == 1 and host.poisoned() == frozenset()


def test_where_memory_runs_out_the_child_goes_before_the_daemon(shared):
    own = int(Path("/proc/self/oom_score_adj").read_text())
    child = int(Path(f"/proc/{shared.status()['pid']}/oom_score_adj").read_text())
    assert child == 500 > own


def test_a_query_waits_for_one_batch_at_most(make):
    host = make(command=fragile(batch_tokens=16))
    host.embed_query("ready", 60)
    texts = [f"SLOW {n}" for n in range(12)]
    feeder = threading.Thread(target=host.embed_passages, args=(texts, NEVER))
    feeder.start()
    until(lambda: host.status()["queued"] == 12)
    host.embed_query("first of all", 60)
    assert host.status()["queued"] >= 8, "four texts are one batch"
    feeder.join()


def test_an_idle_childs_memory_is_given_back(make):
    host = make(idle_seconds=0.2)
    host.warm()
    until(lambda: host.status()["pid"] is not None)
    pid = host.status()["pid"]
    until(lambda: host.status()["state"] == "off" and gone(pid))


def test_warm_loads_without_a_text(make):
    host = make()
    host.warm()
    until(lambda: host.status()["state"] == "ready")


def test_passages_are_reranked_by_their_words(make):
    host = make(token_vectors=True)
    texts = ["The cat sleeps on the warm stove", "Invoices are due within thirty days", "A database index"]
    encoded = host.encode_passages(texts, NEVER)
    assert all(len(one.tokens) % 384 == 0 and one.tokens for one in encoded)
    assert host.embed_passages(texts, NEVER) == [one.dense for one in encoded]
    known = [("", one.tokens) for one in encoded]
    done = host.rerank("maxsim", "When do I have to pay the bill?", known, 60)
    assert max(range(3), key=done.scores.__getitem__) == 1 and done.reason == "" and done.made == [b"", b"", b""]
    made = host.rerank("maxsim", "When do I have to pay the bill?", [(text, b"") for text in texts], 60)
    assert made.scores == done.scores and made.made == [one.tokens for one in encoded]


def test_a_reranking_without_enough_time_is_left_out_with_its_reason(make):
    host = make(command=fragile())
    host.embed_query("ready", 60)
    assert host.rerank("maxsim", "query", [("SLOW one", b"")], 60).scores
    late = host.rerank("maxsim", "query", [(f"SLOW {n}", b"") for n in range(4)], 1.0)
    assert late.scores is None and "4 of 4 passages have no token vectors" in late.reason
    busy = threading.Thread(target=host.embed_query, args=("SLOW query", 60))
    busy.start()
    until(lambda: host.status()["queued"] == 1)
    unasked = host.rerank("maxsim", "query", [("text", b"")], 0.05)
    assert unasked.scores is None and "0.05 s" in unasked.reason
    busy.join()


def test_a_reranking_whose_child_dies_is_not_tried_again(make):
    host = make(command=fragile())
    done = host.rerank("maxsim", "query", [("DEADLY", b"")], 60)
    assert done.scores is None and done.reason
    assert host.embed_query("fine", 60) and host.poisoned() == frozenset()
    host.close()
    assert "closed" in host.rerank("maxsim", "query", [("x", b"")], 1).reason


def test_more_than_a_message_holds_is_told(make):
    host = make()
    done = host.rerank("maxsim", "query", [("", bytes(384 * 30_000))] * 4, 60)
    assert done.scores is None and "too large" in done.reason
    assert host.embed_query("fine", 60) and host.status()["restarts"] == 0
