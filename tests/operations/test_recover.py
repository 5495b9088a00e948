"""Is a home whole again after its process died, and are all views only views?"""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from memoryd.errors import ContentDamaged
from memoryd.files import Files
from memoryd.index.generations import Generations
from memoryd.operations import gateway, reading
from memoryd.operations import recover as recovering
from memoryd.operations.check import check
from memoryd.operations.health import status
from memoryd.operations.ingest import Seen, applied, store_documents
from memoryd.operations.rebuild import rebuild
from memoryd.operations.reconcile import reconcile_vault
from memoryd.store import pack as packs
from memoryd.store.shelf import Shelf
from tests.operations.conftest import commits, git, opened, settle

TEXTS = [
    "The release branch is cut every second Tuesday.",
    "Log lines carry the request id as their first field.",
    "The invoice service owns the currency table.",
]
QUESTIONS = ["when is the release branch cut", "what is the first field of a log line", "who owns currencies"]


def fill(home, caller):
    return [gateway.add(home, caller, content=text, type="fact") for text in TEXTS]


def answers(home, caller):
    return [
        [
            {k: one[k] for k in ("id", "content", "source", "address", "bytes", "lines", "relevance", "title", "scope")}
            for one in reading.search(home, caller, query=question)["memories"]
        ]
        for question in QUESTIONS
    ]


VIEWS = ["store/index.db", "catalog.db", "indexes", "embeddings.db"]


@pytest.mark.parametrize("how", ["rebuild", "start"])
def test_every_view_can_be_deleted(root, project, how):
    caller = project("app")
    with opened(root) as home:
        fill(home, caller)
        settle(home)
        before = answers(home, caller)
        scopes = home.scopes.all()
    for view in VIEWS:
        for path in [root / view, *root.glob(f"{view}-*")]:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    with opened(root) as home:
        if how == "rebuild":
            report = rebuild(home)
            assert (report["documents"], report["stopped"]) == (3, False)
        settle(home)
        assert answers(home, caller) == before
        assert [s.id for s in home.scopes.all()] == [s.id for s in scopes]
        assert check(home, read_data=True)["findings"] == []


def test_case_67_counts_after_a_restart_are_those_before(root, project):
    """case 67: statistics do not fall back to zero."""
    caller = project("app")
    from memoryd.operations.health import status

    def figures(home):
        shown = status(home, caller)
        return {key: shown[key] for key in ("memories", "documents", "passages", "store")}

    with opened(root) as home:
        fill(home, caller)
        settle(home)
        before = figures(home)
    with opened(root) as home:
        assert figures(home) == before


def die_at(point: str, occurrence: int):
    left = [occurrence]

    def fault(name: str) -> None:
        if name == point:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return fault


STEPS = (
    [("vault.mkdir", 1)]
    + [("vault.create", 1), ("vault.write", 1), ("vault.fsync", 1), ("vault.rename", 1), ("vault.fsync_dir", 1)]
    + [("vault.stage", 1), ("vault.commit", 1), ("vault.committed", 1)]
    + [("vault.fsync_dir", 2), ("vault.fsync_dir", 9)]
    + [("pack.mkdir", 1), ("pack.create", 1), ("pack.write", 1), ("pack.fsync", 1), ("pack.rename", 1)]
    + [("pack.fsync_dir", 1), ("index.commit", 1)]
)
"""Every kind of step that an add passes, in order; of the many folders that are synced the first and the last."""


def test_the_steps_of_an_add_are_the_ones_that_are_killed(root, nobody):
    seen: list[str] = []
    with opened(root, files=Files(seen.append)) as home:
        seen.clear()
        gateway.add(home, nobody, content="A first memory.", type="fact", scope="global")
    assert set(seen) == {point for point, _ in STEPS}
    for point, occurrence in STEPS:
        assert seen.count(point) >= occurrence


@pytest.mark.parametrize(("point", "occurrence"), STEPS)
def test_case_14_killed_at_every_step_of_an_add(root, nobody, point, occurrence):
    """case 14: after SIGKILL the memory is whole or was never there, acknowledged ones stay, the home is clean."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with opened(root, files=Files(no_fault)) as home:
                home.files.fault = die_at(point, occurrence)
                gateway.add(home, nobody, content="A first memory.", type="fact", scope="global")
                os.write(write_end, b"acknowledged")
                os._exit(0)
        finally:
            os._exit(99)
    os.close(write_end)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    acknowledged = os.read(read_end, 100) == b"acknowledged"
    os.close(read_end)
    with opened(root) as home:
        held = home.memories.counts(None).get("in_force", 0)
        assert held == commits(home) == len(home.vault.listing())
        assert held == 1 or not acknowledged
        assert home.state.intents.all() == []
        assert check(home, read_data=True)["findings"] == []
        assert git("status", "--porcelain", cwd=home.vault.path) == ""
        again = gateway.add(home, nobody, content="A first memory.", type="fact", scope="global")
        assert again["outcome"] == ("exists" if held else "added")


def no_fault(_point: str) -> None:
    """Replaced by the killing hook once the home is open."""


def test_a_memory_committed_but_not_yet_in_packs_is_taken_in_at_start(root, project):
    caller = project("app")
    with opened(root) as home:
        home.store_lane.acquire()
        added = gateway.add(home, caller, content="Written while the store lane was busy.", type="fact", scope="global")
        assert added["outcome"] == "added"
        assert home.memories.get(added["id"]) is None
        again = gateway.add(home, caller, content="Written while the store lane was busy.", type="fact", scope="global")
        assert (again["outcome"], again["id"]) == ("exists", added["id"])
        home.store_lane.release()
    with opened(root) as home:
        assert home.memories.get(added["id"]) is not None


def spoil(root, kind):
    """Flip a bit in the payload of every frame of this kind, in every pack."""
    for path in (root / "store" / "packs").rglob("*.pack"):
        data = bytearray(path.read_bytes())
        with Shelf(root / "store").open(bytes.fromhex(path.stem)) as file:
            for frame in file.footer().entries:
                if frame.kind == kind:
                    data[frame.offset + frame.length - 1] ^= 1
        path.chmod(0o600)
        path.write_bytes(data)


def lose(root, *views):
    for view in views:
        for path in [root / view, *root.glob(f"{view}-*")]:
            path.unlink(missing_ok=True)


def words(home, caller, query):
    return [one["id"] for one in reading.search(home, caller, query=query, mode="keyword")["memories"]]


@pytest.mark.parametrize("lost", [[], ["catalog.db"], ["catalog.db", "store/index.db"]], ids=len)
def test_damaged_contents_heal_from_the_vault(root, nobody, lost):
    """The vault holds the bytes; a damaged frame is no fault of the file, and never told as one."""
    with opened(root) as home:
        added = gateway.add(home, nobody, content="The zebra queue.", type="fact", scope="global")
        settle(home)
    spoil(root, packs.CHUNK)
    lose(root, *lost)
    with opened(root) as home:
        if not lost:
            found = check(home, read_data=True)["findings"]
            assert {one["code"] for one in found} == {"frame-damaged", "content-damaged"}
            assert "stored again" in next(one["remedy"] for one in found if one["code"] == "content-damaged")
        assert reading.get(home, nobody, id=added["id"])["content"].endswith("The zebra queue.")
        shown = reading.get(home, nobody, id=added["id"], metadata=True)
        assert shown["extraction"]["problem"] is None
        settle(home)
        assert words(home, nobody, "zebra") == [added["id"]]
        assert status(home, nobody)["vault"]["faulty"] == []
        assert {one["code"] for one in check(home, read_data=True)["findings"]} == {"frame-damaged"}
        assert status(home, nobody)["notices"] == []


def test_a_content_that_a_reader_found_damaged_heals_at_the_next_look(root, nobody):
    with opened(root) as home:
        added = gateway.add(home, nobody, content="The zebra queue.", type="fact", scope="global")
    spoil(root, packs.CHUNK)
    with opened(root) as home:
        with pytest.raises(ContentDamaged):
            home.store.read(added["address"])
        assert reconcile_vault(home)["changed"] == 1
        assert home.store.read(added["address"])
        assert reconcile_vault(home)["changed"] == 0


def test_adding_the_same_words_again_heals_their_damaged_bytes(root, nobody):
    words_again = {"content": "The zebra queue.", "type": "fact", "scope": "global"}
    with opened(root) as home:
        added = gateway.add(home, nobody, **words_again)
    spoil(root, packs.CHUNK)
    with opened(root) as home:
        again = gateway.add(home, nobody, **words_again)
        assert (again["outcome"], again["id"], again["healed"]) == ("exists", added["id"], True)
        assert home.store.read(added["address"])
        assert "healed" not in gateway.add(home, nobody, **words_again)
        assert commits(home) == 1


def test_one_damaged_record_frame_and_no_catalog_block_no_start(root, nobody):
    with opened(root) as home:
        store_documents(home, [Seen("notes", b"a.md", "global", "document", b"Kept in the corpus.")])
        added = gateway.add(home, nobody, content="The zebra queue.", type="fact", scope="global")
    spoil(root, packs.DOCUMENT)
    lose(root, "catalog.db", "store/index.db")
    with opened(root) as home:
        assert any(one.startswith("records: The records 1 to 1 in ") for one in status(home, nobody)["notices"])
        assert home.memories.get(added["id"]) is not None, "the vault file was taken in again"
        assert home.documents.by_path("notes", b"a.md") is None, "a scan brings it back"
        settle(home)
        assert words(home, nobody, "zebra") == [added["id"]]
        assert home.store.last_seq() == applied(home) == 3, "no number is given out again"
        found = check(home, read_data=True)["findings"]
        assert {one["code"] for one in found} == {"frame-damaged"}
        assert all("memoryd repair" in one["remedy"] for one in found)
        assert rebuild(home)["documents"] == 1
    with opened(root) as home:
        assert home.memories.get(added["id"]) is not None


def test_a_half_built_set_that_is_still_written_to_stops_no_start(root, monkeypatch):
    """The process that fills it ends a moment after its daemon."""
    with opened(root):
        pass
    stale = root / "indexes" / "gen-7"
    stale.mkdir()
    usual, refused = Generations.collect, [OSError(39, "Directory not empty")] * 3

    def collect(self):
        if refused:
            raise refused.pop()
        return usual(self)

    monkeypatch.setattr(Generations, "collect", collect)
    monkeypatch.setattr(recovering, "COLLECT_PAUSE", 0.0)
    with opened(root):
        assert not stale.exists()
        stale.mkdir()
    refused += [OSError(39, "Directory not empty")] * 1000
    with opened(root) as home:
        assert home.generation is not None
        assert stale.exists()
