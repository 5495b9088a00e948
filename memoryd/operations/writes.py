"""How do memory files become one commit, and what may still fail once it stands?

An intent in state.db goes round each commit, so that a crash leaves something to settle. After the commit nothing may
turn a stored memory into an error: what fails then is logged and told in the home's notices.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from memoryd.catalog.memories import MemoryRow
from memoryd.catalog.state import Intent
from memoryd.digest import address_of, sha256_hex
from memoryd.errors import DiskFull, MemorydError, TokenInvalid, VaultBusy, VaultError, VaultFileInvalid
from memoryd.operations.home import Fresh, Home
from memoryd.records import MemoryFields, shown_path
from memoryd.sources import entry
from memoryd.sources.entry import Change
from memoryd.sources.vault import VaultCommit, VaultWrite

STATE_NOTICE = "state"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Written:
    """A commit that stands; `notice` says what is odd about a file that it holds (None: nothing)."""

    commit: VaultCommit
    notice: str | None


def write_memories(
    home: Home,
    new: Sequence[MemoryFields],
    message: str,
    *,
    rewritten: Sequence[tuple[MemoryRow, Mapping[str, Change]]] = (),
) -> Written:
    """One commit of new files and changed frontmatter; durable on return. The caller holds the vault lane.

    Raises TokenInvalid where the file to change is not the planned one, VaultFileInvalid where a spoilt file lies in
    the place of a new one, VaultError kinds, DiskFull: nothing is stored.
    """
    wanted = {entry.file_path(fields): fields for fields in new}
    for path, fields in wanted.items():
        _require_free(home, path, fields.id)
    writes = [VaultWrite(path=path, data=entry.render(fields), expected=None) for path, fields in wanted.items()]
    for row, changes in rewritten:
        data = home.vault.read(row.path)
        if address_of(data) != row.address:
            raise TokenInvalid("The memory changed since this plan was made.")
        writes.append(VaultWrite(path=row.path, data=entry.rewrite(data, changes), expected=sha256_hex(data)))
        wanted[row.path] = replace(row.fields, **cast("dict[str, Any]", changes))
    commit = commit_files(home, writes, message)
    return Written(commit, _announce(home, commit, wanted))


def _require_free(home: Home, path: bytes, id: str) -> None:
    """A file in the place of a new memory is that memory, not taken in yet or spoilt, or somebody's work: it stays."""
    if not home.vault.exists(path):
        return
    shown = shown_path(path)
    words = f"{shown} lies where this memory belongs"
    ways = f"correct it by hand, or remove it (`git rm {shown}` in the vault) and call again."
    try:
        other = entry.parse(home.vault.read(path)).fields.id
    except VaultFileInvalid as error:
        line = error.details["line"]
        message = f"{words} and does not read as a memory. {error.message} Nothing was written."
        raise VaultFileInvalid(
            message, next_step=f"Look at line {line} of {shown}: {ways}", path=shown, line=line
        ) from error
    if other == id:
        step = "Call again in a moment; if that goes on, `memoryd status` names what it waits for."
        raise VaultBusy(f"{shown} holds this memory and was not taken in yet; nothing was written.", next_step=step)
    raise VaultError(f"{words} and holds another one, {other}.", next_step=f"Look at {shown}: {ways}", path=shown)


def _announce(home: Home, commit: VaultCommit, wanted: Mapping[bytes, MemoryFields]) -> str | None:
    """Queue what was committed for packs and index. A hook may have left a file that no longer reads as a memory."""
    notice = None
    for path, data in commit.files.items():
        fields = wanted[path]
        try:
            fields = entry.parse(data).fields
        except VaultFileInvalid as error:
            notice = f"A git hook changed {shown_path(path)}, which does not read as a memory now: {error.message}"
            _log.warning("%s", notice)
        home.fresh.append(Fresh(path, fields, str(commit)))
    home.work.set()
    return notice


def commit_files(home: Home, writes: Sequence[VaultWrite], message: str) -> VaultCommit:
    """Commit under a write intent, which a crash leaves to be settled. The caller holds the vault lane.

    On a full disk it is tried once more in the space that the store holds back. Raises VaultError kinds and DiskFull,
    and what state.db raises before anything is written.
    """
    try:
        return _commit_once(home, writes, message)
    except DiskFull as error:
        if error.details.get("settle") or not home.store.release_reserve():
            raise
        return _commit_once(home, writes, message)


def _commit_once(home: Home, writes: Sequence[VaultWrite], message: str) -> VaultCommit:
    write_id = uuid.uuid4().hex
    head, now = home.vault.head(), home.clock()
    home.state.intents.add(*(Intent(write_id, one.path, one.sha256, head, os.getpid(), now) for one in writes))
    try:
        commit = home.vault.commit(
            writes, message, spawned=lambda pid, started: home.state.intents.name_git(write_id, pid, started)
        )
    except MemorydError as error:
        if not error.details.get("settle"):
            with suppress(MemorydError, sqlite3.Error):  # an intent that stays is settled later
                home.state.intents.drop(write_id)
        raise
    with nothing_spoiled(home):
        home.state.intents.drop(write_id)
    return commit


@contextmanager
def nothing_spoiled(home: Home) -> Iterator[None]:
    """A write to state.db after a commit: where it fails, the commit stands all the same and a notice tells."""
    try:
        yield
    except (MemorydError, sqlite3.Error) as error:
        _log.warning("state.db was not written after a commit: %s", error)
        home.notices[STATE_NOTICE] = f"state.db cannot be written; what was committed is stored: {error}"
    else:
        home.notices.pop(STATE_NOTICE, None)
