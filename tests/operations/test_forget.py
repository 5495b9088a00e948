"""What a person had erased is nowhere any more, and nothing brings it back."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.errors import AmbiguousAddress, ContentForgotten, MemorydError, NotFound, ReachUnknown
from memoryd.files import Files
from memoryd.operations import gateway, reading, reconcile, snapshots, treewalk
from memoryd.operations.burial import interrupted
from memoryd.operations.check import check
from memoryd.operations.collect import gc
from memoryd.operations.erasure import plan, shown
from memoryd.operations.forget import run
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import Seen, bury, commit_snapshot, store_documents
from memoryd.operations.rebuild import rebuild, refresh_catalog
from memoryd.operations.scan import scan_corpora
from memoryd.records import DocumentEvent, SnapshotRecord, TombstoneRecord
from memoryd.store import pack as packs
from memoryd.store.merkle import FILE, TreeEntry, build
from tests.operations.conftest import configure, fill_up, git, opened, settle
from tests.templates import written

HERE = Caller()
STEP = int(os.environ.get("CRASH_STEP", "45"))
"""Every so many steps are tried; CRASH_STEP=1 tries each one."""
SECRET = "hunter2-correct-horse-battery"


def add(home: Home, text: str, **other: object) -> dict:
    return gateway.add(home, HERE, content=text, type="fact", scope="global", **other)


def put(home: Home, path: str, data: bytes | None, source: str = "docs") -> str:
    store_documents(home, [Seen(source, path.encode(), "global", "document", data)])
    return "" if data is None else address_of(data)


def forget(home: Home, *names: str, text: str | None = None) -> dict:
    return run(home, plan(home, names, text))


def words_in(root: Path, words: str) -> list[str]:
    """Files in which the words stand, raw or inside a frame of a pack; git's objects aside."""
    needle, found = words.encode(), []
    for path in sorted(root.rglob("*")):
        if not path.is_file() or "/.git/objects/" in str(path):
            continue
        data = path.read_bytes() if path.suffix == ".pack" else written(path)
        if needle in data or any(needle in raw for raw in frames(data)):
            found.append(str(path.relative_to(root)))
    return found


def frames(data: bytes) -> list[bytes]:
    found = []
    for match in re.finditer(re.escape(packs.FRAME_MAGIC), data):
        at = match.start()
        header = packs.parse_frame_header(data[at : at + packs.FRAME_SIZE], at)
        body = data[at + packs.FRAME_SIZE + header.table_len :][: header.stored_len]
        found.append(packs.decode_payload(header, body, at))
    return found


def clean(home: Home) -> None:
    assert check(home, read_data=True)["findings"] == []


def log(root: Path, *lines: str) -> Path:
    path = root / "log" / "memoryd.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


# -- a memory


def test_a_memory_is_gone_from_everywhere_and_no_rebuild_brings_it_back(root):
    with opened(root) as home:
        kept = add(home, "The queue holds forty jobs.")
        told = add(home, f"The password of the printer is {SECRET}.", title=f"Printer {SECRET}")
        home.state.answers.remember("t", {"title": f"Printer {SECRET}"}, 1.0)
        settle(home)
        reading.search(home, HERE, query="printer password")
        home.count_recalls()
        job = home.jobs.create("corpus-scan", {"note": SECRET})
        home.jobs.finish(job, "done", {})
        line = f"a warning about {told['id']}"
        path = log(root, "one", line, f"Printer {SECRET}", "two")
        (root / "catalog.db.damaged-1").write_text(SECRET)
        assert words_in(root, SECRET)
        embedded = home.cache.count(home.host.identity.fingerprint)
        (root / "indexes" / "gen-1" / "of before").touch()
        preview = shown(home, plan(home, [told["id"][:12]]))
        assert [one["title"] for one in preview["memories"]] == [f"Printer {SECRET}"]
        assert preview["packs"] >= 1 and preview["passages"] >= 1
        done = forget(home, told["id"][:12], text=SECRET)
        assert done["remains"] == []
        assert path.read_text().split("\n")[0::3] == ["one", "two"]
        assert done["logs"]["log/memoryd.log"] == 2
        assert done["git"]["commits"] and any("filter-repo" in one for one in done["git"]["purge"])
        assert words_in(root, SECRET) == []
        assert home.cache.count(home.host.identity.fingerprint) == embedded - 1
        assert list((root / "indexes").rglob("of before")) == []
        settle(home)
        assert words_in(root, SECRET) == []
        answer = reading.search(home, HERE, query="printer password queue", mode="keyword")
        assert [one["id"] for one in answer["memories"]] == [kept["id"]]
        assert not (home.vault.path / told["path"]).exists()
        clean(home)
        rebuild(home)
        assert home.memories.get(told["id"]) is None
        with pytest.raises(NotFound):
            reading.get(home, HERE, id=told["id"])
        clean(home)
        assert words_in(root, SECRET) == []
    (root / "catalog.db").unlink()
    (root / "store" / "index.db").unlink()
    with opened(root) as home:
        settle(home)
        assert home.memories.get(told["id"]) is None and home.memories.get(kept["id"]) is not None
        clean(home)
    assert words_in(root, SECRET) == []


def test_all_states_of_a_memory_go_and_other_revisions_are_named(root):
    with opened(root) as home:
        first = add(home, f"It is {SECRET}.")
        told = gateway.supersede(home, HERE, id=first["id"], content="It is kept in the vault of the bank.")
        second = gateway.supersede(
            home, HERE, id=first["id"], content="It is kept in the vault of the bank.", confirm=told["confirm"]
        )
        settle(home)
        made = plan(home, [first["id"]])
        assert len(made.addresses) == 2
        assert shown(home, made)["memories"][0]["other_revisions"] == [second["id"]]
        run(home, made)
        assert words_in(root, SECRET) == []
        assert home.memories.get(second["id"]) is not None
        clean(home)


def test_the_vault_that_cannot_commit_stops_it_before_anything_is_erased(root):
    with opened(root) as home:
        told = add(home, f"It is {SECRET}.")
        settle(home)
        git("checkout", "-q", "--detach", cwd=home.vault.path)
        before = sorted((root / "store" / "packs").rglob("*.pack"))
        with pytest.raises(MemorydError):
            forget(home, told["id"])
        assert sorted((root / "store" / "packs").rglob("*.pack")) == before
        assert (home.vault.path / told["path"]).exists()
        git("checkout", "-q", "main", cwd=home.vault.path)
        assert forget(home, told["id"], text=SECRET)["remains"] == []


def test_a_file_restored_from_git_is_not_taken_in(root):
    with opened(root) as home:
        told = add(home, f"It is {SECRET}.")
        settle(home)
        forget(home, told["id"])
        git("checkout", "-q", "HEAD~1", "--", told["path"], cwd=home.vault.path)
        reconcile.reconcile_vault(home)
        assert home.memories.get(told["id"]) is None
        assert "forget" in home.notices[f"vault/{told['path']}"]


def test_words_added_again_later_are_a_new_memory(root):
    with opened(root) as home:
        told = add(home, f"It is {SECRET}.")
        settle(home)
        forget(home, told["id"])
        again = add(home, f"It is {SECRET}.")
        assert again["outcome"] == "added"


# -- documents


def test_a_document_of_a_corpus_is_gone_and_the_scan_does_not_store_it_again(root, tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text(f"# Access\n\nThe password is {SECRET}.\n")
    (folder / "b.md").write_text("# Other\n\nNothing of interest.\n")
    configure(root, corpora=[{"label": "docs", "path": str(folder)}])
    with opened(root) as home:
        scan_corpora(home)
        settle(home)
        done = forget(home, "docs/a.md", text=SECRET)
        assert done["remains"] == [] and words_in(root, SECRET) == []
        settle(home)
        for _ in range(2):
            report = scan_corpora(home)["corpora"]["docs"]
            assert [one["code"] for one in report["problems"]] == ["content-forgotten"]
            assert (report["added"], report["documents"]) == (0, 1)
        assert words_in(root, SECRET) == []
        (folder / "a.md").write_text("# Access\n\nAsk the admin.\n")
        report = scan_corpora(home)["corpora"]["docs"]
        assert report["problems"] == [] and report["added"] == 1
        settle(home)
        clean(home)


def test_an_explicit_add_is_refused_until_a_person_allows_it(root):
    data = f"{SECRET} in an artifact".encode()
    with opened(root) as home:
        address = put(home, "log.txt", data, "artifact")
        forget(home, address)
        with pytest.raises(ContentForgotten) as caught:
            put(home, "log.txt", data, "artifact")
        assert caught.value.details["address"] == address
        store_documents(home, [Seen("artifact", b"log.txt", "global", "document", data, allow_forgotten=True)])
        assert home.store.read(address) == data
        put(home, "copy.txt", data, "artifact")
        gc(home, now=True)
        assert home.store.read(address) == data
        rebuild(home)
        assert home.documents.by_path("artifact", b"log.txt").address == address
        clean(home)
        forget(home, address)
        assert words_in(root, SECRET) == []
        clean(home)


def test_former_states_that_hold_the_words_go_and_the_present_one_stays(root):
    base = os.urandom(40_000)
    with opened(root) as home:
        put(home, "a", base + SECRET.encode() + os.urandom(9000))
        now = base + os.urandom(9000)
        put(home, "a", now)
        made = plan(home, [], SECRET)
        preview = shown(home, made)
        assert (preview["former"], preview["documents"], preview["sharing"]) == (["docs/a"], [], ["docs/a"])
        run(home, made)
        assert words_in(root, SECRET) == []
        assert home.store.read(address_of(now)) == now
        row = home.documents.by_path("docs", b"a")
        assert [one.address for one in home.documents.history(row.document_id)] == [address_of(now)]
        clean(home)


def test_words_across_a_chunk_border_and_in_leftovers_are_found(root):
    with opened(root) as home:
        data = os.urandom(60_000)
        ends = home.store._chunker.cut(data)
        at = ends[2]
        words = data[at - 10 : at + 10].hex()
        text = data.hex().encode()
        put(home, "hex", text)
        assert plan(home, [], words).addresses == {address_of(text)}
        with home.store_lane:
            group = home.store.group()
            group.add(b"left behind " + SECRET.encode())
            group.commit()
        assert forget(home, text=SECRET)["remains"] == []
        assert words_in(root, SECRET) == []


def test_a_leftover_that_names_a_piece_of_it_goes_along(root):
    """A write that never came to its record holds the same piece: nobody needs it, so it does not keep the piece."""
    secret = SECRET.encode() * 3000
    with opened(root) as home:
        address = put(home, "a", secret + os.urandom(20_000))
        with home.store_lane:
            group = home.store.group()
            group.add(secret + os.urandom(20_000))
            group.commit()
        forget(home, address)
        assert words_in(root, SECRET) == []
        clean(home)


def test_snapshots_stay_without_it(root):
    data, other = f"{SECRET}\n".encode(), b"other\n"
    entries = [
        TreeEntry(n, FILE, False, len(d), bytes.fromhex(address_of(d)[7:])) for n, d in ((b"a", data), (b"b", other))
    ]
    tree, nodes = build(entries)
    with opened(root) as home:
        with home.store_lane:
            group = home.store.group()
            group.add(data)
            group.add(other)
            group.nodes(nodes)
            group.record("snapshot", SnapshotRecord("s", "x", "global", tree.hex(), "2026-01-01T00:00:00Z").to_json())
            group.commit()
        made = plan(home, [address_of(data)])
        run(home, made)
        assert words_in(root, SECRET) == []
        assert home.store.node(tree) == nodes[tree] and home.store.read(address_of(other)) == other
        report = gc(home, now=True)
        assert report["ok"] and home.store.node(tree) == nodes[tree]


@pytest.mark.parametrize("stream_from", [1 << 10, 32 << 20])
def test_a_snapshot_of_a_directory_that_still_holds_it_stores_no_piece_of_it(root, tmp_path, monkeypatch, stream_from):
    monkeypatch.setattr(treewalk, "STREAM_FROM", stream_from)
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "long").write_bytes(f"{SECRET}\n".encode() * 4000)
    (folder / "other").write_bytes(b"other\n" * 4000)
    with opened(root) as home:
        snapshots.take(home, HERE, path=str(folder))
        forget(home, text=SECRET)
        taken = snapshots.take(home, HERE, path=str(folder), full=True, partial=True)
        assert [one["path"] for one in taken["unread"]] == ["long"]
        assert home.store.read(address_of(b"other\n" * 4000))
        assert words_in(root, SECRET) == []


def test_quarantined_copies_that_hold_it_go_and_others_stay(root):
    with opened(root) as home:
        address = put(home, "a", f"{SECRET} ".encode() * 50)
        held = next(p for p in (root / "store" / "packs").rglob("*.pack"))
        quarantine = root / "store" / "quarantine"
        (quarantine / "copy.pack").write_bytes(held.read_bytes())
        torn = bytearray(held.read_bytes())
        torn[150] ^= 1
        (quarantine / "torn.pack").write_bytes(bytes(torn))
        put(home, "b", b"nothing " * 100)
        other = next(p for p in (root / "store" / "packs").rglob("*.pack") if p != held)
        (quarantine / "other.pack").write_bytes(other.read_bytes())
        (quarantine / "plain").write_text("nothing")
        assert shown(home, plan(home, [address]))["quarantine"] == ["copy.pack", "torn.pack"]
        forget(home, address)
        assert sorted(path.name for path in quarantine.iterdir()) == ["other.pack", "plain"]


def test_what_is_named_must_be_there_and_plain(root):
    with opened(root) as home:
        put(home, "a", b"one")
        for name in ("docs/none", "sha256:" + "0" * 64, "0123456789"):
            with pytest.raises(NotFound):
                plan(home, [name])
        with pytest.raises(NotFound):
            plan(home, [], "not there at all")
        with pytest.raises((MemorydError, AmbiguousAddress)):
            plan(home, [".."])
        assert plan(home, [address_of(b"one").upper().replace("SHA256", "sha256")]).addresses == {address_of(b"one")}


# -- traces


def test_what_has_nothing_to_do_with_it_stays(root):
    """A short line of an erased content is no reason to take a log line, a job or an answer away."""
    with opened(root) as home:
        address = put(home, "a.md", f"# Access\n\nreturn None\n\nThe password is {SECRET}.\n".encode())
        home.state.answers.remember("t", {"text": "return None"}, 1.0)
        job = home.jobs.create("corpus-scan", {"note": "return None"})
        home.jobs.finish(job, "done", {})
        path = log(root, "it said: return None", f"The password is {SECRET}.", "Access")
        done = forget(home, address)
        assert (done["logs"], done["rows"]["jobs"]) == ({"log/memoryd.log": 1}, 0)
        assert path.read_text().splitlines()[::2] == ["it said: return None", "Access"]
        assert home.state.answers.recall("t") == {"text": "return None"}


def test_with_the_words_themselves_nothing_vaguer_is_looked_for(root):
    with opened(root) as home:
        put(home, "a.md", f"# A title that many logs hold\n\nThe password is {SECRET}.\n".encode())
        path = log(root, "about A title that many logs hold", f"x{SECRET}x", "The password is told to nobody.")
        assert forget(home, text=SECRET)["logs"] == {"log/memoryd.log": 1}
        assert path.read_text().splitlines()[::2] == [
            "about A title that many logs hold",
            "The password is told to nobody.",
        ]


# -- losses of before


def lose(home: Home, address: str) -> None:
    """A content in force that no pack holds."""
    event = DocumentEvent("docs", f"lost {address[-4:]}".encode(), "global", "document", "seen", address, 12)
    with home.store_lane:
        group = home.store.group()
        group.record("document", event.to_json())
        group.commit()
    refresh_catalog(home, lambda: False)


def test_a_loss_holds_up_no_erasure_and_a_person_ends_it(root):
    lost = address_of(b"never stored")
    with opened(root) as home:
        kept = put(home, "kept", b"kept " * 50)
        address = put(home, "a", f"{SECRET} ".encode() * 50)
        lose(home, lost)
        with pytest.raises(ReachUnknown) as caught:
            gc(home)
        assert f"memoryd forget {lost}" in caught.value.next_step
        assert forget(home, address)["remains"] == []
        assert words_in(root, SECRET) == []
        with pytest.raises(ReachUnknown):
            gc(home)
        assert forget(home, lost)["remains"] == []
        assert gc(home)["ok"] and home.store.read(kept) == b"kept " * 50
        clean(home)


def tree_of(home: Home, label: str, name: bytes, address: str, *, nodes_too: bool) -> SnapshotRecord:
    tree, nodes = build([TreeEntry(name, FILE, False, 9, bytes.fromhex(address[7:]))])
    with home.store_lane:
        group = home.store.group()
        if nodes_too:
            group.nodes(nodes)
        record = SnapshotRecord(label, "x", "global", tree.hex(), "2026-01-01T00:00:00Z")
        return commit_snapshot(home, group, record)


def test_a_content_that_only_a_snapshot_names_can_be_given_up(root):
    lost = address_of(b"never stored")
    with opened(root) as home:
        tree_of(home, "s", b"a", lost, nodes_too=True)
        with pytest.raises(ReachUnknown):
            gc(home)
        forget(home, lost)
        assert gc(home)["ok"]
        with pytest.raises(NotFound):
            plan(home, [address_of(b"nor named")])


@pytest.mark.parametrize("name", ["snapshot:{seq}", "snapshot:s@2"])
def test_a_snapshot_whose_tree_is_lost_can_be_given_up(root, name):
    with opened(root) as home:
        kept = put(home, "kept", b"kept " * 50)
        tree_of(home, "s", b"a", kept, nodes_too=True)
        torn = tree_of(home, "s", b"b", kept, nodes_too=False)
        address = put(home, "a", f"{SECRET} ".encode() * 50)
        for refused in (lambda: gc(home), lambda: forget(home, address)):
            with pytest.raises(ReachUnknown) as caught:
                refused()
            assert "memoryd forget snapshot:" in caught.value.next_step
        made = plan(home, [name.format(seq=torn.seq)])
        assert shown(home, made)["buried"] == [f"{torn.seq} s (2026-01-01T00:00:00Z)"]
        done = run(home, made)
        assert [one["seq"] for one in done["snapshots"]] == [torn.seq] and done["remains"] == []
        assert [one.label for one in home.snapshots.all(None)] == ["s"]
        assert forget(home, address)["remains"] == [] and words_in(root, SECRET) == []
        assert gc(home)["ok"]
        refresh_catalog(home, lambda: False)
        assert home.snapshots.numbered(torn.seq, None) is None


def test_a_snapshot_goes_along_with_a_content(root):
    with opened(root) as home:
        address = put(home, "a", f"{SECRET} ".encode() * 50)
        torn = tree_of(home, "s", b"b", address, nodes_too=False)
        done = forget(home, address, f"snapshot:{torn.seq}")
        assert done["remains"] == [] and home.snapshots.all(None) == []
        assert words_in(root, SECRET) == []


# -- failures


def stubborn(armed: list[bool]) -> Files:
    """A disk on which replaced packs cannot be removed while it is armed."""

    def fault(point: str) -> None:
        if armed[0] and point == "replaced.unlink":
            raise OSError(errno.EIO, os.strerror(errno.EIO), point)

    return Files(fault)


def test_a_replaced_pack_that_cannot_be_removed_is_told(root):
    armed = [False]
    with opened(root, files=stubborn(armed)) as home:
        address = put(home, "a", f"{SECRET} ".encode() * 50)
        armed[0] = True
        done = forget(home, address)
        assert [one.startswith("replaced pack ") for one in done["remains"]] == [True]
        assert words_in(root, SECRET) and "forget" in home.notices
        armed[0] = False
        assert forget(home, *interrupted(home))["remains"] == []
        assert words_in(root, SECRET) == [] and "forget" not in home.notices


def test_a_tombstone_stays_while_a_replaced_pack_still_holds_its_record(root):
    armed = [False]
    with opened(root, files=stubborn(armed)) as home:
        put(home, "a", b"one " * 50)
        put(home, "a", b"two " * 50)
        row = home.documents.by_path("docs", b"a")
        first = home.documents.history(row.document_id)[0].seq
        data = f"{SECRET} ".encode() * 50
        event = DocumentEvent("docs", b"b", "global", "document", "seen", address_of(data), len(data))
        with home.store_lane:
            group = home.store.group()
            group.add(data)
            group.record("tombstone", TombstoneRecord(None, first, "expired").to_json())
            group.record("document", event.to_json())
            group.commit()
        refresh_catalog(home, lambda: False)
        put(home, "c", b"three " * 50)
        armed[0] = True
        gc(home, now=True)
        forget(home, address_of(data))
        assert home.store.in_force()[1]
        stones = [record.data.get("target") for record in home.store.records() if record.kind == "tombstone"]
        assert first in stones


def test_an_erasure_by_words_is_ended_only_with_the_words(root):
    cut = [False]

    def fault(point: str) -> None:
        if cut[0] and point == "index.commit":
            raise OSError(errno.EIO, os.strerror(errno.EIO), point)

    with opened(root, files=Files(fault)) as home:
        address = put(home, "a", f"{SECRET}\n".encode())
        cut[0] = True
        with pytest.raises(MemorydError):
            forget(home, text=SECRET)
    path = log(root, f"it said {SECRET[:-1]}", SECRET)
    with opened(root) as home:
        assert interrupted(home) == [address] and "--text again" in home.notices["forget"]
        forget(home, address)
        assert interrupted(home) == [address] and "--text again" in home.notices["forget"]
    with opened(root) as home:
        path.write_text(f"one\n{SECRET}\n")
        assert forget(home, text=SECRET)["logs"] == {"log/memoryd.log": 1}
        assert interrupted(home) == [] and "forget" not in home.notices
        assert words_in(root, SECRET) == []


def story(root: Path) -> tuple[str, list[str]]:
    with opened(root) as home:
        kept = [add(home, "The queue holds forty jobs.")["id"]]
        told = add(home, f"It is {SECRET}.", title=f"About {SECRET}")
        put(home, "a", f"copy {SECRET}".encode())
        settle(home)
    log(root, SECRET, "fine")
    return told["id"], kept


def finish(root: Path, kept: list[str]) -> None:
    """Whatever was left: named by a notice, or nothing was begun; the same call ends it."""
    with opened(root) as home:
        left = interrupted(home)
        assert bool(left) == ("forget" in home.notices)
        for identity in kept:
            assert home.memories.get(identity) is not None
        try:
            done = run(home, plan(home, left, SECRET))
        except NotFound:
            done = {"remains": []}
        assert done["remains"] == [] and interrupted(home) == []
        clean(home)
        assert words_in(root, SECRET) == []
        refresh_catalog(home, lambda: False)
        assert home.documents.live_count() == 1
        assert home.memories.get(kept[0]) is not None
    assert words_in(root, SECRET) == []


def template(tmp_path: Path) -> tuple[Path, list[str]]:
    root = tmp_path / "template"
    _secret, kept = story(root)
    return root, kept


def copied(root: Path, to: Path) -> Path:
    subprocess.run(["cp", "-a", root, to], check=True)
    return to


@pytest.mark.timeout(900 if STEP > 1 else 0)
def test_killed_at_any_step_it_can_be_ended(tmp_path):
    source, kept = template(tmp_path)
    nth, finished = 1, False
    while not finished:
        root = copied(source, tmp_path / str(nth))
        child = os.fork()
        if child == 0:
            _die_at(root, nth)
        finished = not os.WIFSIGNALED(os.waitpid(child, 0)[1])
        finish(root, kept)
        nth += STEP
    assert nth > 20


def _die_at(root: Path, nth: int) -> None:
    from memoryd.files import Files

    seen, armed = [0], [False]

    def fault(_point: str) -> None:
        seen[0] += armed[0]
        if seen[0] == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        with opened(root, files=Files(fault)) as home:
            made = plan(home, [], SECRET)
            armed[0] = True
            run(home, made)
    finally:
        os._exit(0)


@pytest.mark.timeout(900 if STEP > 1 else 0)
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("lasting", [False, True])
def test_an_error_at_any_step_leaves_something_that_can_be_ended(tmp_path, code, lasting):
    from memoryd.files import Files

    source, kept = template(tmp_path)
    nth, finished = 1, False
    while not finished:
        root = copied(source, tmp_path / str(nth))
        count, armed = [0], [False]

        def fault(point: str, count: list[int] = count, armed: list[bool] = armed, nth: int = nth) -> None:
            if armed[0]:
                count[0] += 1
                if count[0] == nth or (lasting and count[0] > nth):
                    raise OSError(code, os.strerror(code), point)

        with opened(root, files=Files(fault)) as home:
            made = plan(home, [], SECRET)
            armed[0] = True
            try:
                run(home, made)
            except MemorydError:
                pass
            armed[0] = False
            finished = count[0] < nth
        finish(root, kept)
        nth += STEP
    assert nth > 20


def test_a_check_names_what_should_be_gone(root):
    """Tombstones stand, the packs were not written again yet."""
    with opened(root) as home:
        address = put(home, "a", SECRET.encode())
        with home.store_lane:
            bury(home, [TombstoneRecord(address, None, "r")])
        (finding,) = [one for one in check(home)["findings"] if one["code"] == "content-forgotten"]
        assert finding["where"] == address and address in finding["remedy"]
        forget(home, address)
        clean(home)


def test_on_a_full_disk_a_secret_can_be_erased(small_disk):
    root = small_disk / "home"
    with opened(root) as home:
        kept = add(home, "The queue holds forty jobs.")
        told = add(home, f"It is {SECRET}.")
        put(home, "a", os.urandom(300_000) + SECRET.encode())
        settle(home)
        fill_up(small_disk, "filler")
        assert forget(home, told["id"], text=SECRET)["remains"] == []
        assert words_in(root, SECRET) == []
        assert home.memories.get(kept["id"]) is not None
