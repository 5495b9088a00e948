"""Whatever is added, removed, kept, collected, arranged and reopened, in any order: a dictionary tells what must be there."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memoryd.digest import address_of
from memoryd.errors import NotFound
from memoryd.operations.burial import standing
from memoryd.operations.collect import HOUR, gc
from memoryd.operations.erasure import plan
from memoryd.operations.forget import run as forget
from memoryd.operations.home import Home
from memoryd.operations.ingest import Seen, commit_snapshot, store_documents
from memoryd.operations.optimize import optimize
from memoryd.operations.rebuild import refresh_catalog
from memoryd.records import SnapshotRecord
from memoryd.store.merkle import FILE, TreeEntry, build
from tests.operations.conftest import configure, opened

SOURCE = random.Random(11)
BLOCKS = [SOURCE.randbytes(9_000) for _ in range(6)]
CONTENTS = [b"".join(SOURCE.sample(BLOCKS, SOURCE.randint(1, 4))) for _ in range(10)]
CONTENTS += [b"", b"x", b"small one", b"small two" * 30]
KEPT = {"history_revisions": 1, "history_days": 0, "snapshots": 1, "snapshot_days": 0, "grace_hours": 2}
paths = st.sampled_from(["a", "b", "c", "d"])
contents = st.integers(0, len(CONTENTS) - 1).map(lambda number: CONTENTS[number])
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "6"))


class Collected(RuleBasedStateMachine):
    """`documents`: the states of each path, the newest last (None: gone); `trees`: the last snapshot of each label."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp()) / "home"
        self.now = 1_800_000_000.0
        self.documents: dict[str, list[bytes | None]] = {}
        self.trees: dict[str, dict[str, bytes]] = {}
        self.forgotten: set[bytes] = set()
        self.open = ExitStack()
        configure(self.root, retention=KEPT)
        self.home: Home = self.open.enter_context(opened(self.root, clock=lambda: self.now))

    def teardown(self) -> None:
        assert list(self.home.store.findings(read_data=True)) == []
        self.open.close()
        shutil.rmtree(self.root.parent)

    def store(self, path: str, data: bytes | None) -> None:
        allowed = data in self.forgotten
        store_documents(self.home, [Seen("docs", path.encode(), "global", "document", data, allow_forgotten=allowed)])
        self.documents.setdefault(path, []).append(data)
        self.forgotten.discard(data or b"none")

    @rule(path=paths, data=contents)
    def put(self, path: str, data: bytes) -> None:
        self.store(path, data)

    @precondition(lambda self: any(states[-1] is not None for states in self.documents.values()))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        there = sorted(path for path, states in self.documents.items() if states[-1] is not None)
        self.store(data.draw(st.sampled_from(there)), None)

    @rule(label=st.sampled_from(["one", "two"]), chosen=st.sets(st.integers(0, len(CONTENTS) - 1), max_size=4))
    def snapshot(self, label: str, chosen: set[int]) -> None:
        files = {f"f{number}": CONTENTS[number] for number in chosen if CONTENTS[number] not in self.forgotten}
        entries = [
            TreeEntry(name.encode(), FILE, False, len(data), bytes.fromhex(address_of(data)[7:]))
            for name, data in files.items()
        ]
        tree, nodes = build(entries)
        with self.home.store_lane:
            group = self.home.store.group()
            for data in files.values():
                group.add(data)
            group.nodes(nodes)
            record = SnapshotRecord(label, "tree", "global", tree.hex(), "2027-01-15T08:00:00Z")
            commit_snapshot(self.home, group, record)
        self.trees[label] = files

    @rule(data=contents)
    def leave_behind(self, data: bytes) -> None:
        """A write that ends before its record."""
        with self.home.store_lane:
            group = self.home.store.group()
            group.add(data)
            group.commit()

    @rule(hours=st.sampled_from([0.5, 1.5, 3.0]))
    def wait(self, hours: float) -> None:
        self.now += hours * HOUR

    @rule(now=st.booleans())
    def collect(self, now: bool) -> None:
        report = gc(self.home, now=now)
        assert report["ok"]
        if now:
            assert report["live"]["contents"] == len(self.in_force())
            assert gc(self.home, now=True)["rewritten"] == 0
            assert list(self.home.store.findings(read_data=False)) == []

    @rule()
    def arrange(self) -> None:
        optimize(self.home)

    @rule()
    def rebuild(self) -> None:
        refresh_catalog(self.home, lambda: False)

    @rule(lose=st.booleans())
    def reopen(self, lose: bool) -> None:
        self.open.close()
        if lose:
            (self.root / "store" / "index.db").unlink()
            (self.root / "catalog.db").unlink()
        self.home = self.open.enter_context(opened(self.root, clock=lambda: self.now))

    @rule(data=contents)
    def erase(self, data: bytes) -> None:
        try:
            made = plan(self.home, [address_of(data)])
        except NotFound:
            return
        assert forget(self.home, made)["remains"] == []
        self.forgotten.add(data)
        for path, states in self.documents.items():
            last = states[-1]
            left = [state for state in states if state != data]
            self.documents[path] = [*left, None] if last == data else left
        for files in self.trees.values():
            for name in [name for name, held in files.items() if held == data]:
                del files[name]

    def in_force(self) -> set[bytes]:
        """What a collection must leave: the present state, one former one, the last snapshots."""
        kept = {data for states in self.documents.values() for data in states[-2:] if data is not None}
        return kept | {data for files in self.trees.values() for data in files.values()}

    @invariant()
    def everything_in_force_is_there(self) -> None:
        for data in self.in_force():
            assert self.home.store.read(address_of(data)) == data
        for path, states in self.documents.items():
            row = self.home.documents.by_path("docs", path.encode())
            assert row is not None
            assert row.address == (None if states[-1] is None else address_of(states[-1]))
        assert standing(self.home) == {address_of(data) for data in self.forgotten}
        for data in self.forgotten:
            assert self.home.store.size(address_of(data)) is None or self.left_again(data)

    def left_again(self, data: bytes) -> bool:
        """A write without a record may bring it into the packs; no document shows it."""
        return self.home.documents.ever_at(address_of(data), None) == []


Collected.TestCase.settings = settings(
    max_examples=EXAMPLES, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCollected = Collected.TestCase
