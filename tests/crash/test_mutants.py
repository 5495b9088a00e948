"""Would these tests notice a mistake? Each mutant breaks one rule of the commit protocol, and must be caught.

A mutant that survives means that the suite proves less than it says.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from memoryd.digest import address_of
from memoryd.files import Files, write_all
from memoryd.operations.collect import gc
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.roots import Ledger
from memoryd.store import findings as findings_room
from memoryd.store import pack as packs
from memoryd.store.chunkstore import ChunkStore
from memoryd.store.group import WriteGroup
from memoryd.store.keeper import IndexKeeper
from memoryd.store.seal import Sealer
from memoryd.store.shelf import Frame, PackFile, Shelf
from tests.crash import test_corruption, test_nth_error
from tests.crash.disk import Recorder
from tests.crash.power import survive
from tests.crash.stores import Broken, examine, filled, flip_payload, hurt, open_store, put, text
from tests.operations.conftest import configure, opened

Patch = pytest.MonkeyPatch
STATES = 250
"""States that a mutant is shown, where the suite itself examines more."""


def power(name: str, recorder: type[Recorder] = Recorder) -> Callable[[Path], None]:
    return lambda folder: void(survive(name, folder, limit=STATES, recorder=recorder))


def void(_value: object) -> None:
    """The oracle raises, or it does not."""


# 1 to 4: something is not synced


class NoFsync(Recorder):
    def _fsync(self, fd: int) -> None:
        """The bytes of a file are never made durable."""


class NoDirFsync(Recorder):
    def _fsync_dir(self, path: Path) -> None:
        """A name is never made durable."""


class LateFsync(Recorder):
    """A file is synced only after it got its name."""

    late: int | None = None

    def _fsync(self, fd: int) -> None:
        self.late = self._fds.get(fd)

    def _rename(self, source: Path, target: Path) -> None:
        super()._rename(source, target)
        self.log.append(("dirsync", self._name(target.parent)))
        self.log.append(("fsync", self.late))


class HalfWritten(Recorder):
    """The last piece of a file is written after the fsync."""

    def _fsync(self, fd: int) -> None:
        last = next(n for n in range(len(self.log) - 1, -1, -1) if self.log[n][0] == "write")
        written = self.log.pop(last)
        super()._fsync(fd)
        self.log.append(written)


def same(_patch: Patch) -> None:
    """The mutant is in the recorder."""


# 5 to 9: steps in another order, or left out


def index_before_pack(patch: Patch) -> None:
    """The index is told before the pack is durable."""

    def keep(self: ChunkStore, writer, rows) -> None:
        pieces = writer.finish()
        rows.size = writer.size
        self._apply(rows)
        self._sealer.seal(rows.pack, pieces)
        self._last_seq = max(self._last_seq, rows.last_seq)

    patch.setattr(ChunkStore, "_keep", keep)


def removed_before_commit(patch: Patch) -> None:
    """Replaced packs go before the new one is there."""
    real = ChunkStore.publish

    def publish(self: ChunkStore, held, writer, rows, replaces) -> None:
        self._remove(replaces)
        real(self, held, writer, rows, replaces)

    patch.setattr(ChunkStore, "publish", publish)


def held_packs_come_last(patch: Patch) -> None:
    """The pack that replaces is placed before the others that hold the survivors."""

    real = ChunkStore._place
    patch.setattr(ChunkStore, "_place", lambda self, everything: real(self, list(reversed(everything))))


def no_catching_up(patch: Patch) -> None:
    """At open, packs that the index lacks are not taken in."""
    patch.setattr(IndexKeeper, "_caught_up", lambda _self, index: index)


def no_sweep_of_tmp(patch: Patch) -> None:
    """Torn temporary files stay."""
    real = Files.discard

    def discard(self: Files, path: Path, *, owner: str) -> None:
        if owner != "pack":
            real(self, path, owner=owner)

    patch.setattr(Files, "discard", discard)


def told_too_early(patch: Patch) -> None:
    """A group is acknowledged when it is collected; its pack is written with the next one."""
    waiting: list[tuple] = []

    def seal(self: ChunkStore, group: WriteGroup, writer, rows) -> None:
        while waiting:
            self._keep(*waiting.pop())
        waiting.append((writer, rows))
        self._apply(rows)
        self._last_seq = rows.last_seq

    patch.setattr(ChunkStore, "_seal", seal)


# 10 to 14: what is read is believed


def no_hash_on_read(patch: Patch) -> None:
    """Items are handed out as they are."""
    patch.setattr(Frame, "checked", lambda self, _digest, at, length: self.raw[at : at + length])
    patch.setattr(packs, "check_payload", lambda _header, _payload, _offset: None)


def no_payload_checksum(patch: Patch) -> None:
    """A check trusts that what unpacks to the right bytes was stored as it lies there."""
    patch.setattr(packs, "check_payload", lambda _header, _payload, _offset: None)


def no_footer_hash(patch: Patch) -> None:
    """The table of contents is believed."""
    real = packs.parse_footer

    def parse(head: bytes, body: bytes, trailer: bytes, size: int) -> packs.Footer:
        digest = packs._footer_hash(head, body)
        return real(head, body, trailer[:8] + digest + trailer[40:], size)

    patch.setattr(packs, "parse_footer", parse)


def no_header_check(patch: Patch) -> None:
    """A pack's own header is not looked at."""
    patch.setattr(PackFile, "check_header", lambda self: self.read_at(0, packs.HEADER_SIZE))
    no_footer_hash(patch)  # which covers the header as well


def frames_not_compared(patch: Patch) -> None:
    """The index is not compared with the packs."""
    patch.setattr(findings_room._Look, "_against_index", lambda _self, _rows: iter(()))


def flips(folder: Path) -> None:
    """The suite's own test of damaged packs, before optimize."""
    test_corruption.test_every_damaged_byte_of_a_pack_is_found(folder, lambda _what, _number: None, False)


def quiet_flips(folder: Path) -> None:
    test_corruption.test_a_flip_that_unpacks_to_the_same_bytes_is_found(folder, lambda _what, _number: None)


def reads(folder: Path) -> None:
    test_corruption.test_one_flip_costs_one_frame_and_no_answer_is_wrong(folder, lambda _what, _number: None, False)


def index_damage(folder: Path) -> None:
    test_corruption.test_damage_of_the_index_changes_no_answer(folder, lambda _what, _number: None)


# 15 to 17: errors are swallowed


def failed_fsync_is_ignored(patch: Patch) -> None:
    """An fsync that failed counts as done."""
    real = Files.write_new

    def write(self: Files, path: Path, pieces, *, owner: str, mode: int = 0o600) -> None:
        try:
            real(self, path, pieces, owner=owner, mode=mode)
        except OSError as error:
            if error.errno != errno.EIO:
                raise

    patch.setattr(Files, "write_new", write)


def short_writes_pass(patch: Patch) -> None:
    """A full disk in the middle of a file counts as its end."""
    real = Files._write

    def write(self: Files, fd: int, data: bytes) -> None:
        with contextlib.suppress(OSError):
            real(self, fd, data)

    patch.setattr(Files, "_write", write)
    patch.setattr(test_nth_error.Failing, "_write", _half)


def _half(self: test_nth_error.Failing, fd: int, data: bytes) -> None:
    """The disk takes the half of the nth piece, and nobody says so."""
    write_all(fd, data[: len(data) // 2] if self.seen == self._nth else data)


def half_made_packs_stay(patch: Patch) -> None:
    """A pack whose index rows had no room stays although the caller was told that nothing was kept."""
    patch.setattr(Sealer, "undo", lambda _self, _pack: None)


def nth_errors(folder: Path) -> None:
    before_folder = folder / "template"
    before = filled(before_folder)
    for code, ever, short in ((errno.EIO, False, False), (errno.ENOSPC, False, True)):
        for nth in range(1, 60):
            home = folder / "home"
            shutil.copytree(before_folder, home)
            failing = test_nth_error.Failing(nth, code, ever=ever, short=short)
            test_nth_error.attempt("add", home, before, failing)
            shutil.rmtree(home)


def index_errors(folder: Path) -> None:
    """A full disk under the index, then the pack must not come back at the next open."""
    home = folder / "home"

    def fault(point: str) -> None:
        if point == "index.commit" and armed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    armed: list[bool] = []
    store = open_store(home, Files(fault))
    put(store, [text(1)])
    armed.append(True)
    with contextlib.suppress(Exception):
        put(store, [text(2) * 40_000])  # too large for the reserve
    there = store.last_seq()
    store.close()
    store = open_store(home)
    try:
        if store.last_seq() != there:
            raise Broken("what was refused came back")
    finally:
        store.close()


# 18 to 20: removal and repair


def counts_decide(patch: Patch) -> None:
    """Content goes when one of its documents goes, as a count that was never raised would say."""
    real = Ledger.decide

    def decide(self: Ledger, *arguments, **options):
        decision = real(self, *arguments, **options)
        decision.contents -= _gone_contents
        return decision

    patch.setattr(Ledger, "decide", decide)


_gone_contents: set[bytes] = set()


def shared_content(folder: Path) -> None:
    """case 2, 4: two documents hold the same bytes, one of them goes, gc runs: the other one reads on."""
    shared = b"LICENSE text\n" * 30
    configure(folder / "home", retention={"history_revisions": 0, "history_days": 0})
    with opened(folder / "home") as home:
        for path in (b"a/LICENSE", b"b/LICENSE"):
            store_documents(home, [Seen("docs", path, "global", "document", shared)])
        store_documents(home, [Seen("docs", b"a/LICENSE", "global", "document", None)])
        _gone_contents.add(bytes.fromhex(address_of(shared)[7:]))
        try:
            gc(home, now=True)
            if home.store.read(address_of(shared)) != shared:
                raise Broken("wrong bytes")
        finally:
            _gone_contents.clear()


def nothing_aside(patch: Patch) -> None:
    """A repair keeps no copy of what it replaces."""
    patch.setattr("memoryd.store.mend.keep_aside", lambda _files, _shelf, path: path)


def all_of_a_ruin_goes(patch: Patch) -> None:
    """A repair drops a damaged pack instead of what is damaged of it."""
    patch.setattr("memoryd.store.mend._sound", lambda _shelf, _pack: iter(()))


def mended(folder: Path) -> None:
    before = filled(folder)
    hurt(folder)
    damaged = sorted((folder / "store" / "packs").rglob("*.pack"))
    contents = {path.name: path.read_bytes() for path in damaged}
    store = open_store(folder)
    for ruin in store.ruins():
        store.mend(ruin, ())
    store.close()
    kept = {path.name: path.read_bytes() for path in (folder / "store" / "quarantine").glob("*.pack")}
    if not kept or any(contents[name] != data for name, data in kept.items()):
        raise Broken("the damaged pack is gone")
    examine(folder, before)


def trusted_forever(patch: Patch) -> None:
    """A frame that was sound once is never looked at again before its content counts as stored."""
    patch.setattr(Shelf, "intact", lambda _self, _pack, _offset: True)


def healed(folder: Path) -> None:
    """case 6: adding damaged content again heals it."""
    store = open_store(folder)
    content = random.Random(1).randbytes(1500)
    put(store, [content])
    flip_payload(store._shelf.path(store.pack_ids()[0]))
    put(store, [content])
    try:
        if store.read(address_of(content)) != content:
            raise Broken("wrong bytes")
    finally:
        store.close()


MUTANTS: dict[str, tuple[Callable[[Patch], None], Callable[[Path], None]]] = {
    "a file is not synced": (same, power("add", NoFsync)),
    "a directory is not synced": (same, power("add", NoDirFsync)),
    "a file is synced after its rename": (same, power("add", LateFsync)),
    "the last piece is written after the fsync": (same, power("add", HalfWritten)),
    "index before pack": (index_before_pack, power("add")),
    "replaced packs go before the commit": (removed_before_commit, power("optimize")),
    "the replacing pack comes first": (held_packs_come_last, power("optimize")),
    "recovery applies no packs": (no_catching_up, power("add")),
    "temporary files stay": (no_sweep_of_tmp, power("add")),
    "told before the commit": (told_too_early, power("add")),
    "no hash on read": (no_hash_on_read, reads),
    "no checksum of stored bytes": (no_payload_checksum, quiet_flips),
    "footer believed": (no_footer_hash, flips),
    "pack header believed": (no_header_check, flips),
    "index not compared": (frames_not_compared, index_damage),
    "failed fsync ignored": (failed_fsync_is_ignored, nth_errors),
    "short write ignored": (short_writes_pass, nth_errors),
    "a refused pack stays": (half_made_packs_stay, index_errors),
    "a count decides what goes": (counts_decide, shared_content),
    "repair keeps nothing aside": (nothing_aside, mended),
    "repair drops the whole pack": (all_of_a_ruin_goes, mended),
    "frames trusted forever": (trusted_forever, healed),
}


@pytest.mark.parametrize("name", list(MUTANTS))
def test_a_mutant_is_caught(name, ram, monkeypatch, count):
    mutate, oracle = MUTANTS[name]
    mutate(monkeypatch)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any alarm of the oracle counts, not a slip of the test
        oracle(ram)
    assert not isinstance(caught.value, (TypeError, NameError, AttributeError, KeyError)), caught.value
    count("mutants caught", 1)


@pytest.mark.parametrize(
    "oracle", [shared_content, mended, healed, index_errors, nth_errors], ids=lambda one: one.__name__
)
def test_the_oracles_are_silent_without_a_mutant(oracle, ram):
    oracle(ram)
