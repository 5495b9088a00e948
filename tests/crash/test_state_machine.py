"""Whatever is done in whatever order: the store holds exactly what a dict would."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memoryd.digest import address_of
from memoryd.errors import NotFound
from memoryd.store.merkle import FILE, TreeEntry, build
from tests.crash.scale import scaled
from tests.crash.stores import noise, open_store, small_packs, write_again

SMALL = st.binary(max_size=200)
LARGE = st.integers(0, 30).map(lambda seed: noise(60_000 + seed * 1000, seed))


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        memory = Path("/dev/shm")
        self.home = Path(tempfile.mkdtemp(prefix="memoryd-crash-", dir=memory if memory.is_dir() else None))
        self.store = open_store(self.home)
        self.contents: set[bytes] = set()
        self.gone: set[bytes] = set()
        self.nodes: dict[bytes, bytes] = {}
        self.records: dict[int, dict] = {}

    @rule(contents=st.lists(SMALL | LARGE, min_size=1, max_size=4))
    def add(self, contents: list[bytes]) -> None:
        with self.store.group() as group:
            data = [{"v": 1, "address": group.add(content)} for content in contents]
            for one in data:
                group.record("document", one)
            seqs = group.commit()
        self.records.update(zip(seqs, data, strict=True))
        self.contents |= set(contents)
        self.gone -= set(contents)

    @rule(contents=st.lists(SMALL, min_size=1, max_size=3))
    def add_and_drop(self, contents: list[bytes]) -> None:
        with self.store.group() as group:
            for content in contents:
                group.add(content)

    @rule(
        names=st.sets(
            st.binary(min_size=1, max_size=8).filter(
                lambda name: b"/" not in name and b"\0" not in name and name not in (b".", b"..")
            ),
            max_size=6,
        )
    )
    def tree(self, names: set[bytes]) -> None:
        root, nodes = build([TreeEntry(name, FILE, False, 1, bytes(32)) for name in names])
        with self.store.group() as group:
            group.nodes(nodes)
            group.record("snapshot", {"v": 1, "root": root.hex()})
            (seq,) = group.commit()
        self.records[seq] = {"v": 1, "root": root.hex()}
        self.nodes |= nodes

    @rule()
    def optimize(self) -> None:
        with small_packs():
            write_again(self.store)

    @rule(data=st.data())
    def collect(self, data: st.DataObject) -> None:
        small = sorted(content for content in self.contents if len(content) < 1000)
        dead = set(data.draw(st.lists(st.sampled_from(small), max_size=3)) if small else ())
        write_again(self.store, without=frozenset(bytes.fromhex(address_of(one)[7:]) for one in dead))
        self.contents -= dead
        self.gone |= dead

    @rule(index=st.booleans())
    def reopen(self, index: bool) -> None:
        self.store.close()
        if index:
            (self.home / "store" / "index.db").unlink()
        self.store = open_store(self.home)

    @rule()
    def rebuild(self) -> None:
        self.store.rebuild_index()

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        for content in self.contents:
            assert self.store.read(address_of(content)) == content
            assert self.store.read_range(address_of(content), 10, 90) == content[10:90]
        for content in self.gone:
            try:
                raise AssertionError(self.store.read(address_of(content)))
            except NotFound:
                pass
        for address, data in self.nodes.items():
            assert self.store.node(address) == data
        assert {record.seq: record.data for record in self.store.records()} == self.records
        assert self.store.last_seq() == max(self.records, default=0)

    def teardown(self) -> None:
        found = list(self.store.findings(read_data=True))
        self.store.close()
        shutil.rmtree(self.home)
        assert found == []


StoreMachine.TestCase.settings = settings(
    max_examples=scaled(25, 200),
    stateful_step_count=scaled(15, 30),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=not scaled(0, 1),
)
TestStore = StoreMachine.TestCase
