"""How do memories get into the git repository of the vault, and what becomes of an interrupted write?

The caller keeps a write intent around each commit, see docs/formats.md; `settle` brings one to its end.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

from memoryd.digest import sha256_hex
from memoryd.errors import DiskFull, GitLocked, VaultBusy, VaultError, VaultFileInvalid, VaultNotARepository
from memoryd.files import Files
from memoryd.sources.commit import CLEANUP_SECONDS, Attempt, VaultCommit, VaultWrite, make_durable
from memoryd.sources.folder import OWNER, FileStat, Folder, Keeper, explained
from memoryd.sources.git import Git, SpawnHook, Word, literal
from memoryd.sources.halfway import under_way
from memoryd.sources.locks import lock_files, remove_stale, wait_for_git
from memoryd.sources.merge import Mark, Merge, Merged

__all__ = ["FileStat", "Vault", "VaultCommit", "VaultWrite"]

ALIAS_FILE = b"scopes.json"
UNDO_FOLDER = "memoryd-undo"
"""Folder in the git directory that keeps the former bytes of a file while it is being replaced."""
_SCOPE = re.compile(r"p-[a-z0-9-]+-[0-9a-f]{8}\Z")


class Vault:
    """The memories' repository at `path`. One commit at a time; reading needs no lane."""

    def __init__(self, path: Path, git: Git, files: Files) -> None:
        self.path = path
        self.git = git
        self._files = files
        self._folder = Folder(path, files)
        self._lane = threading.Lock()
        self.last_aliases: dict[str, str] | None = None

    def ensure(self, *, known: bool = False) -> None:
        """Make the vault where there is none; check the one that is there.

        A missing or empty folder becomes a repository (all at once: a crash leaves no half of one), unless `known`
        says that this vault held memories: then it is not mounted, and an empty one must not take its place. Raises
        VaultNotARepository, GitMissing, GitTooOld, GitFailed (another owner), VaultError.
        """
        self.git.check_version()
        if os.path.lexists(self.path / ".git"):
            self.git.places()
            return
        try:
            empty = not os.path.lexists(self.path) or not any(self.path.iterdir())
        except OSError as error:
            raise VaultError(f"{self.path} cannot be read: {error.strerror}.", vault=str(self.path)) from error
        if known or not empty:
            what = "is empty or missing" if empty else "is not a git repository"
            step = "Mount or restore the vault." if empty else "Move the folder away, or run `git init` in it yourself."
            raise VaultNotARepository(f"{self.path} {what}.", next_step=step, vault=str(self.path))
        self._create()

    def head(self) -> str | None:
        """The vault's newest commit; None before the first one. Cheap enough to poll."""
        return self.git.head()

    def read(self, path: bytes) -> bytes:
        """A file as it lies there now. Raises NotFound, VaultError."""
        return self._folder.read(path)

    def exists(self, path: bytes) -> bool:
        """Whether something of this name lies there now."""
        return self._folder.exists(path)

    def listing(self) -> dict[bytes, FileStat]:
        """All `*.md` files at any depth, without links and `.git`.

        Raises VaultNotARepository, and VaultError if any folder cannot be read: never a part of the files.
        """
        if not os.path.lexists(self.path / ".git"):
            raise VaultNotARepository(f"{self.path} is not a git repository.", vault=str(self.path))
        return self._folder.listing()

    @property
    def passed(self) -> tuple[bytes, ...]:
        """Links and special files called `*.md` that the last listing passed over."""
        return self._folder.passed

    def committed(self, path: bytes) -> tuple[str, str] | None:
        """(id of HEAD, SHA-256 hex of the file in it), or None where HEAD does not hold the path."""
        head = self.git.head()
        data = None if head is None else self.git.blob(head, path)
        return None if head is None or data is None else (head, sha256_hex(data))

    def commit(self, writes: Sequence[VaultWrite], message: str, *, spawned: SpawnHook | None = None) -> VaultCommit:
        """Write the files and commit exactly them, durably; nothing else that is staged or edited is touched.

        On failure files and index are as before and a typed error comes: VaultError (a file is not as expected),
        VaultBusy (HEAD is detached, a merge or the like is under way), GitLocked, GitTimeout, GitFailed (with the
        hook's words), DiskFull. Where that could not be found out or done,
        the error's details hold `settle: true`: keep the intent and call `settle` for these paths. `spawned` learns
        each git that writes.
        """
        if not writes or len({write.path for write in writes}) != len(writes):
            raise VaultError("A commit needs at least one file, and each file once.")
        with self._lane:
            self._refuse_half_way()
            return Attempt(self.git, self._folder, self._keeper(), self._files, writes, spawned).run(message)

    def merge(self, theirs: str, name: str, *, foreign: bool = False) -> Merged:
        """Take the history of a commit in, whole or not at all; `name` is what messages call it.

        Where only a person can say what holds, everything is as before and VaultConflict names the files of both
        sides. Also raised: VaultBusy (edits in the way, a half-way state, a detached HEAD), GitLocked, GitTimeout,
        GitFailed, DiskFull.
        """
        with self._lane:
            self._refuse_half_way()
            return Merge(self.git, self._folder, self._files, theirs, name, foreign=foreign).run()

    def settle_merge(self, *, patience: float | None = None) -> None:
        """Bring a merge of ours that was cut off to its end, waiting so many seconds for foreign locks.

        Raises GitLocked, GitFailed; then it is tried again.
        """
        with self._lane:
            Mark(self.git, self._folder, self._files).settle(patience=patience)

    def remove(self, paths: Sequence[bytes], message: str) -> str | None:
        """Remove these files by a commit of their own, durably; the commit, None where HEAD held none of them.

        Former bytes that were kept for an undo go too. On failure the files are back and a typed error comes, as from
        `commit`. For a person's erasure alone: no tool of an agent comes here.
        """
        with self._lane:
            self._refuse_half_way()
            places, head = self.git.places(), self.git.head()
            self._files.discard_tree(places.own / UNDO_FOLDER, owner=OWNER)
            former = {path: self._folder.peek(path) for path in paths}
            held = self.git.tree_entries(head, paths) if head is not None and paths else {}
            tracked = [path for path in paths if held.get(path) is not None]
            try:
                for path in paths:
                    self._folder.remove(path)
                    self._folder.sweep(path)
                commit = self._commit_removal(tracked, message) if tracked else None
            except (VaultError, DiskFull, OSError):
                for path, data in former.items():
                    self._folder.restore(path, data)
                raise
            loose: list[Word] = [path for path in paths if path not in tracked]
            if loose:
                self.git.write(["update-index", "--force-remove", "--", *loose], timeout=CLEANUP_SECONDS)
            make_durable(places, self._files, None)
            return commit

    def _commit_removal(self, paths: Sequence[bytes], message: str) -> str | None:
        self._files.fault("vault.commit")
        words: list[Word] = ["commit", "--only", "--quiet", "--message=" + message, "--", *map(literal, paths)]
        self.git.write(words, settings=self.git.identity(), timeout=self.git.timeout)
        self._files.fault("vault.committed")
        return self.git.head()

    def settle(self, path: bytes, sha256: str, *, parent: str | None = "") -> Literal["forward", "undone"]:
        """Bring an interrupted write of `path` (whose bytes have this SHA-256) to one end.

        "forward": HEAD holds it, and now durably; where a hook or an attribute changed what was committed, HEAD holds
        something else than the `parent` of the write (None: no commit, empty: unknown). "undone": its index entry and
        file, where they are ours by hash, are as before. Raises GitLocked where a lock stays (see `remove_stale_lock`).
        """
        with self._lane:
            places = self.git.places()
            wait_for_git(self.git, self.git.lock_wait)
            if held := lock_files(places):
                raise GitLocked(f"{held[0]} is held.", lock=str(held[0]), vault=str(self.path))
            head = self.git.head()
            data = None if head is None else self.git.blob(head, path)
            ours = data is not None and sha256_hex(data) == sha256
            forward = ours or (data is not None and parent != "" and self._came_since(parent, path, data))
            former = self._keeper().former(path, sha256)
            if not forward and self._folder.holds(path, sha256):
                self._folder.restore(path, data if former is None else former)
            self._folder.sweep(path)
            behind = {sha256_hex(former)} if forward and former is not None else set()
            self._sync_index(path, {sha256, *behind}, in_head=data is not None)
            if forward:
                make_durable(places, self._files, None)
            self._keeper().drop(path, sha256)
            return "forward" if forward else "undone"

    def _came_since(self, parent: str | None, path: bytes, data: bytes) -> bool:
        """Whether the commit that a write began on held other bytes at the path than these of HEAD."""
        return parent is None or self.git.blob(parent, path) != data

    def remove_stale_lock(self, pid: int, started: float, *, patience: float | None = None) -> list[Path]:
        """Wait for git's locks to go; then remove those that the dead writer of an intent left.

        `pid` is the git (or daemon) that the intent names, `started` its time in seconds since the epoch. Returns
        what was removed; raises GitLocked naming a lock that may belong to someone else.
        """
        wait = self.git.lock_wait if patience is None else patience
        with self._lane:
            return remove_stale(self.git, self._files, pid, started, wait)

    def read_aliases(self) -> dict[str, str]:
        """Project keys and the scope ids that they stand for (`scopes.json`). Raises VaultFileInvalid, VaultError.

        What was read last stays in `last_aliases` (None: nothing yet).
        """
        data = self._folder.peek(ALIAS_FILE)
        self.last_aliases = {} if data is None else dict(_parse_aliases(data)["aliases"])
        return self.last_aliases

    def alias_write(self, key: str, scope: str) -> VaultWrite | None:
        """What to commit so that a project key (see `Project.key`) stands for a scope id; None: it does already."""
        data = self._folder.peek(ALIAS_FILE)
        table: dict[str, Any] = {"v": 1, "aliases": {}} if data is None else _parse_aliases(data)
        if table["aliases"].get(key) == scope:
            return None
        table["aliases"][key] = scope
        text = json.dumps(table, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
        return VaultWrite(ALIAS_FILE, text.encode(), None if data is None else sha256_hex(data))

    def _refuse_half_way(self) -> None:
        """A commit made in the middle of a person's merge or rebase would disturb it; one on no branch is lost."""
        if (name := under_way(self.git.places())) is not None:
            raise VaultBusy(f"A {name} is under way in {self.path}; nothing was written.", vault=str(self.path))
        if self.git.detached():
            raise VaultBusy(
                f"HEAD is detached in {self.path}: what is committed there belongs to no branch; nothing was written.",
                next_step=f"Check out a branch (`git -C {self.path} switch NAME`), then call again.",
                vault=str(self.path),
            )

    def _create(self) -> None:
        fresh = self.path.parent / f".{self.path.name}.memoryd-new"
        try:
            self._files.discard_tree(fresh, owner=OWNER)
            self._files.mkdir(fresh, owner=OWNER)
            self.git.run(["init", "-q", "-b", "main", "--template=", "."], cwd=fresh)
            for folder, _, names in os.walk(fresh, topdown=False):
                for name in names:
                    self._files.fsync_file(Path(folder, name), owner=OWNER)
                self._files.fsync_dir(Path(folder), owner=OWNER)
            self._files.rename(fresh, Path(os.path.realpath(self.path)), owner=OWNER)
        except OSError as error:
            raise explained(error, self.path) from error

    def _keeper(self) -> Keeper:
        return Keeper(self.git.places().own / UNDO_FOLDER, self._files)

    def _sync_index(self, path: bytes, ours: Collection[str], *, in_head: bool) -> None:
        """Take our entry out of the index, or make it HEAD's; an entry with other bytes is someone's work."""
        entry = self.git.run(["ls-files", "-s", "-z", "--", literal(path)]).out.split(b" ")
        if len(entry) < 3 or sha256_hex(self.git.object(entry[1].decode())) not in ours:
            return
        gone: list[Word] = ["update-index", "--force-remove", "--", path]
        words: list[Word] = ["reset", "-q", "--", literal(path)] if in_head else gone
        self.git.write(words, timeout=CLEANUP_SECONDS)


def _parse_aliases(data: bytes) -> dict[str, Any]:
    """The whole table. Raises VaultFileInvalid, so that a file that is not understood is never rewritten."""
    try:
        table: Any = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise VaultFileInvalid(
            f"scopes.json line {line} is not JSON: {error}.",
            next_step=f"Correct line {line} of scopes.json in the vault by hand.",
            path="scopes.json",
            line=line,
        ) from error
    aliases = table.get("aliases") if isinstance(table, dict) else None
    known = isinstance(aliases, dict) and all(isinstance(v, str) and _SCOPE.match(v) for v in aliases.values())
    if not isinstance(table, dict) or not known:
        message = 'scopes.json must hold {"v": 1, "aliases": {"<project>": "p-<name>-<8 digits>"}}.'
        step = "Correct scopes.json (it begins on line 1) in the vault by hand."
        raise VaultFileInvalid(message, next_step=step, path="scopes.json", line=1)
    return table
