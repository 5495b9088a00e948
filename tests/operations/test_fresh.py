"""Does the newest state of each vault file win, whoever noticed it first, and does a full store spoil nothing?"""

from __future__ import annotations

import errno
import os
import threading
import time

import pytest

from memoryd.catalog.state import Intent
from memoryd.digest import sha256_hex
from memoryd.errors import DiskFull, InvalidInput, TokenInvalid
from memoryd.files import Files
from memoryd.operations import fresh, gateway, reading
from memoryd.operations.health import status
from memoryd.operations.ingest import applied
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import commits, git, opened, settle


def add(home, caller, text, **other):
    return gateway.add(home, caller, content=text, type="fact", scope="global", **other)


def test_many_threads_drain_and_write_at_once_and_nothing_is_stored_twice(home, nobody):
    stop = threading.Event()
    errors: list[BaseException] = []

    def guarded(work):
        def run():
            try:
                work()
            except BaseException as error:  # told below, in the test's own thread
                errors.append(error)

        return threading.Thread(target=run)

    def drain():
        while not stop.is_set():
            fresh.drain_fresh(home, wait=False)
            reconcile_vault(home)

    drains = [guarded(drain) for _ in range(3)]
    adds = [guarded(lambda n=n: [add(home, nobody, f"Fact {n} {m}.") for m in range(4)]) for n in range(3)]
    for thread in drains + adds:
        thread.start()
    for thread in adds:
        thread.join()
    stop.set()
    for thread in drains:
        thread.join()
    fresh.drain_fresh(home)
    assert errors == []
    assert not home.fresh
    assert home.memories.counts(None) == {"in_force": 12}
    rows = list(home.documents.current("vault"))
    assert [len(home.documents.history(row.document_id)) for row in rows] == [1] * 12
    assert home.store.last_seq() == applied(home) == 12


def test_the_same_file_twice_in_the_queue_is_one_state(home, nobody):
    home.store_lane.acquire()
    first = add(home, nobody, "Port 8080.")
    home.fresh.extend(list(home.fresh) * 2)
    home.store_lane.release()
    assert fresh.drain_fresh(home) == 3
    assert len(reading.get(home, nobody, id=first["id"], metadata=True)["history"]) == 1


def test_an_older_look_never_overwrites_a_newer_state(home, nobody):
    """A poll that saw the first words, and stores after the revision, stores what lies there then."""
    old = add(home, nobody, "Port 8080.")
    (path,) = home.vault.listing()
    plan = {"id": old["id"], "content": "Port 9090."}
    token = gateway.supersede(home, nobody, **plan)["confirm"]
    gateway.supersede(home, nobody, **plan, confirm=token)
    assert fresh.take_files(home, [path]) == {"added": 0, "changed": 0, "removed": 0}
    assert home.memories.get(old["id"]).fields.status == "superseded"


def test_absence_alone_removes_nothing(home, nobody):
    first = add(home, nobody, "Port 8080.")
    (path,) = home.vault.listing()
    (home.vault.path / first["path"]).unlink()
    assert not any(fresh.take_files(home, [path]).values())
    assert home.memories.get(first["id"]) is not None
    (home.vault.path / first["path"]).write_text("back")
    assert fresh.take_files(home, [], [path]) == {"added": 0, "changed": 1, "removed": 0}, "it is there after all"
    (home.vault.path / first["path"]).unlink()
    assert fresh.take_files(home, [], [path])["removed"] == 1
    assert fresh.take_files(home, [], [path])["removed"] == 0


def test_a_fresh_file_that_cannot_be_read_stops_nothing(home, nobody):
    home.store_lane.acquire()
    first = add(home, nobody, "Port 8080.")
    second = add(home, nobody, "Port 9090.")
    home.store_lane.release()
    file = home.vault.path / first["path"]
    file.unlink()
    file.mkdir()
    assert fresh.drain_fresh(home) == 2
    assert home.memories.get(second["id"]) is not None
    settle(home)
    file.rmdir()
    git("checkout", "-q", "--", ".", cwd=home.vault.path)
    reconcile_vault(home)
    assert home.memories.get(first["id"]) is not None


def full(point):
    if point == "pack.write":
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_acknowledged_memory_is_not_called_lost_when_the_store_is_full(root, nobody):
    files = Files(lambda point: None)
    with opened(root, files=files) as home:
        kept = add(home, nobody, "Before.")
        settle(home)
        files.fault = full
        added = add(home, nobody, "While the disk was full.")
        assert added["outcome"] == "added", "the vault holds it, so it is true"
        again = add(home, nobody, "While the disk was full.")
        assert (again["outcome"], again["id"]) == ("exists", added["id"])
        settle(home)
        shown = reading.search(home, nobody, query="before", mode="keyword")
        assert [one["id"] for one in shown["memories"]] == [kept["id"]]
        assert shown["index"]["pending"] == 1
        assert any(notice.startswith("packs: 1 committed") for notice in status(home, nobody)["notices"])
        with pytest.raises(DiskFull):
            gateway.archive(home, nobody, id=kept["id"], reason="x")
        files.fault = lambda point: None
        settle(home)
        assert home.memories.get(added["id"]) is not None, "it goes on by itself once there is room"
        assert commits(home) == 2
        assert status(home, nobody)["notices"] == []


def test_two_plans_for_one_memory_at_once_give_one_successor(home, nobody):
    old = add(home, nobody, "Port 8080.")
    plans = [{"id": old["id"], "content": text} for text in ("Port 9090.", "Port 7070.")]
    tokens = [gateway.supersede(home, nobody, **plan)["confirm"] for plan in plans]
    outcomes: list[object] = []

    def confirm(plan, token):
        try:
            outcomes.append(gateway.supersede(home, nobody, **plan, confirm=token)["outcome"])
        except (TokenInvalid, InvalidInput) as error:
            outcomes.append(type(error))

    home.vault_lane.acquire()
    threads = [threading.Thread(target=confirm, args=pair) for pair in zip(plans, tokens, strict=True)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)  # both have checked their token and wait for the lane
    home.vault_lane.release()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted(["superseded", str(TokenInvalid)])
    assert home.memories.counts(None) == {"in_force": 1, "superseded": 1}


def test_a_plan_sees_an_edit_that_nobody_noticed_yet(home, nobody):
    old = add(home, nobody, "Port 8080.")
    file = home.vault.path / old["path"]
    file.write_text(file.read_text().replace("8080", "8081"))
    plan = {"id": old["id"], "content": "Port 9090."}
    preview = gateway.supersede(home, nobody, **plan)
    assert "-Port 8081." in preview["diff"]
    assert gateway.supersede(home, nobody, **plan, confirm=preview["confirm"])["outcome"] == "superseded"


def test_case_35_a_foreign_lock_stops_no_start_and_the_write_is_settled_later(root, nobody):
    """case 35: an interrupted write waits while another git holds a lock; it is told, and settled at a later poll."""
    with opened(root) as home:
        kept = add(home, nobody, "Before.")
        path = home.vault.path / "global" / "fact" / "half.md"
        path.write_text("half written")
        began = time.time()
        half = Intent("w1", b"global/fact/half.md", sha256_hex(b"half written"), home.vault.head(), 2**22 + 7, began)
        home.state.intents.add(half)
    lock = root / "vault" / ".git" / "index.lock"
    lock.write_text("")
    os.utime(lock, (began - 100, began - 100))  # older than the write: somebody else's
    with opened(root) as home:
        assert [one.id for one in home.state.intents.all()] == ["w1"]
        notices = status(home, nobody)["notices"]
        assert any("index.lock" in notice for notice in notices), notices
        assert home.documents.by_path("vault", half.path) is None, "nobody knows yet whether it holds"
        assert reading.get(home, nobody, id=kept["id"])["content"].endswith("Before.")
        home.vault.git.lock_wait = 60.0
        began = time.monotonic()
        assert reconcile_vault(home)["left"] == 1
        assert time.monotonic() - began < 30, "a poll does not wait for the lock"
        lock.unlink()
        assert reconcile_vault(home)["left"] == 0
        assert not path.exists()
        assert home.state.intents.all() == []
        assert status(home, nobody)["notices"] == []


def test_content_that_is_missing_from_the_packs_heals_from_the_vault(root, nobody):
    with opened(root) as home:
        first = add(home, nobody, "Port 8080.")
    for pack in (root / "store" / "packs").rglob("*.pack"):
        pack.unlink()
    for view in root.glob("store/index.db*"):
        view.unlink()
    with opened(root) as home:
        assert reading.get(home, nobody, id=first["id"])["content"].endswith("Port 8080.")
