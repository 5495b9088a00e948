"""A file is read out of a snapshot by those who may see the snapshot, verified like any other content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memoryd.errors import InvalidInput, NotFound
from memoryd.operations.entries import get
from memoryd.operations.snapshots import take


@pytest.fixture
def tree(project):
    caller = project("mine")
    top = Path(caller.directory) / "data"
    (top / "src").mkdir(parents=True)
    (top / "src" / "a.txt").write_text("first\n")
    (top / "run").write_text("#!/bin/sh\n")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("src/a.txt")
    (top / "blob").write_bytes(bytes(range(256)))
    Path(os.fsdecode(os.fsencode(top) + b"/n\xe9")).write_text("latin")
    return caller, top


def test_both_states_of_a_file_are_read(home, tree):
    caller, top = tree
    first = take(home, caller, path=str(top), label="w")
    (top / "src" / "a.txt").write_text("second, longer\n")
    second = take(home, caller, path=str(top), label="w", full=True)
    read = [get(home, caller, source=f"snapshot:{one['seq']}/src/a.txt")["content"] for one in (first, second)]
    assert read == ["first\n", "second, longer\n"]
    shown = get(home, caller, source=f"snapshot:{second['seq']}/src/a.txt", offset=8, limit=6)
    assert (shown["content"], shown["bytes"], shown["scope"]) == ("longer", [8, 14], first["scope"])
    assert (shown["snapshot"]["label"], shown["title"]) == ("w", "a.txt")


def test_every_kind_of_entry(home, tree):
    caller, top = tree
    base = f"snapshot:{take(home, caller, path=str(top), label='w')['seq']}"
    assert get(home, caller, source=f"{base}/link")["content"] == "src/a.txt"
    assert get(home, caller, source=f"{base}/link", metadata=True)["link"]
    about = get(home, caller, source=f"{base}/run", metadata=True)
    assert (about["exec"], about["link"], about["size"]) == (True, False, 10)
    assert get(home, caller, source=f"{base}/n\\xe9")["content"] == "latin"
    with pytest.raises(InvalidInput, match="binary"):
        get(home, caller, source=f"{base}/blob")
    assert get(home, caller, source=f"{base}/blob", metadata=True)["size"] == 256
    with pytest.raises(InvalidInput, match="directory"):
        get(home, caller, source=f"{base}/src")


def test_what_is_not_there_and_what_is_anothers_are_answered_alike(home, tree, project, nobody):
    caller, top = tree
    base = f"snapshot:{take(home, caller, path=str(top), label='w')['seq']}"
    yours = project("yours")
    wrong = [(caller, f"{base}/{path}") for path in ("none", "run/x", "", "../data/run", "n\\xea")]
    wrong += [(caller, source) for source in ("snapshot:99999/run", "snapshot:w/run", "snapshot:", "snapshot:-1/run")]
    wrong += [(other, f"{base}/{path}") for other in (yours, nobody) for path in ("run", "none", "src")]
    for who, source in wrong:
        with pytest.raises(NotFound) as caught:
            get(home, who, source=source)
        assert caught.value.message == f"There is nothing at {source!r} in this session's scopes."
