"""How do some files become one commit, whole, durable and alone, or leave no trace?

The commit is the only commit point. Before it, files and index go back as they were; after it the committed bytes are
the truth, also where a hook changed them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memoryd.digest import sha256_hex
from memoryd.errors import GitFailed, GitLocked, GitTimeout, MemorydError, VaultError
from memoryd.files import Files
from memoryd.records import shown_path
from memoryd.sources.folder import OWNER, Folder, Keeper, explained
from memoryd.sources.git import Git, SpawnHook, Word, literal
from memoryd.sources.halfway import prepared_messages
from memoryd.sources.locks import remove_stale
from memoryd.sources.objects import CannotTell, Places, blob_id, branch_of, index_holds, walk_commit

CLEANUP_SECONDS = 10.0
STAGED_MOST = 4
"""So often is a path staged: a person's git that read the index before we staged writes it back without our entry."""
_RACY_NS = 2_000_000_000
_COMMITTED = re.compile(r"^\[.+? ([0-9a-f]{40,64})\] ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class VaultWrite:
    """One file to write: `expected` is the SHA-256 (hex) that it must have before, None where it must not exist."""

    path: bytes
    data: bytes
    expected: str | None

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the bytes to write."""
        return sha256_hex(self.data)


class VaultCommit(str):
    """A commit's id that also knows, per path, the committed bytes (a hook may have changed what was written)."""

    __slots__ = ("files",)
    files: Mapping[bytes, bytes]

    def __new__(cls, commit: str, files: Mapping[bytes, bytes]) -> VaultCommit:
        """The id `commit` with its files."""
        made = super().__new__(cls, commit)
        made.files = files
        return made


class Attempt:
    """One commit under way, and what it takes to undo it."""

    def __init__(
        self,
        git: Git,
        folder: Folder,
        keeper: Keeper,
        files: Files,
        writes: Sequence[VaultWrite],
        spawned: SpawnHook | None,
    ) -> None:
        self._git = git
        self._folder = folder
        self._keeper = keeper
        self._files = files
        self._writes = writes
        self._spawned = spawned
        self._paths = [write.path for write in writes]
        self._started = time.time()
        self._deadline = time.monotonic() + git.timeout
        self._places: Places = git.places()
        self._quiet = quiet_folders(self._places)
        self._parent = git.head()
        self._identity = git.identity()
        self._prepared = prepared_messages(self._places)
        self._former = {write.path: self._checked(write) for write in writes}
        self._placed: list[VaultWrite] = []
        self._made: list[Path] = []
        self._staged: list[bytes] = []
        self._last_pid = 0

    def run(self, message: str) -> VaultCommit:
        """Write, commit, make durable; see `Vault.commit` for what is raised."""
        try:
            self._write()
            commit = self._record(message)
        except BaseException as error:
            landed = self._landed_or_undone(error)
            if landed is None or not isinstance(error, Exception):
                raise
            commit = landed
        return self._confirm(commit)

    def _checked(self, write: VaultWrite) -> bytes | None:
        """The file's present bytes, which must be the expected ones."""
        found = self._folder.peek(write.path)
        if (None if found is None else sha256_hex(found)) != write.expected:
            state = "does not exist" if found is None else "has other bytes" if write.expected else "exists already"
            shown = shown_path(write.path)
            raise VaultError(f"{shown} is not as expected: it {state}.", path=shown, vault=str(self._git.repo))
        return found

    def _write(self) -> None:
        for write in self._writes:
            former = self._former[write.path]
            if former is not None:
                self._keeper.keep(write.path, write.sha256, former)
            self._placed.append(write)
            self._made += self._folder.put(write.path, write.data)

    def _record(self, message: str) -> str:
        """Stage what the index does not know, commit the paths, return the commit's id."""
        words = ["commit", "--only", "--cleanup=whitespace", "--message=" + message.replace("\0", "")]
        for left in reversed(range(STAGED_MOST)):
            self._stage()
            self._files.fault("vault.commit")
            try:
                out = self._ask([*words, "--", *map(literal, self._paths)], self._identity)
                break
            except GitFailed:
                if not left or all(map(self._in_index, self._paths)):
                    raise
        self._files.fault("vault.committed")
        said = _COMMITTED.search(out.decode("utf-8", "replace"))
        commit = said[1] if said else self._git.head()
        if commit is None:
            raise GitFailed(f"git committed nothing in {self._git.repo}.", vault=str(self._git.repo))
        return commit

    def _stage(self) -> None:
        new = [path for path in self._paths if not self._in_index(path)]
        if new:
            self._files.fault("vault.stage")
            self._staged = list(dict.fromkeys([*self._staged, *new]))
            self._ask(["update-index", "--add", "--", *new], ())

    def _ask(self, words: Sequence[Word], settings: Sequence[str]) -> bytes:
        left = max(self._deadline - time.monotonic(), 0.001)
        return self._git.write(words, settings=settings, timeout=left, spawned=self._note).out

    def _note(self, pid: int, started: float) -> None:
        self._last_pid = pid
        if self._spawned is not None:
            self._spawned(pid, started)

    def _in_index(self, path: bytes) -> bool:
        try:
            return index_holds(self._places, path)
        except CannotTell:
            return bool(self._git.run(["ls-files", "-s", "-z", "--", literal(path)]).out)

    def _landed_or_undone(self, error: BaseException) -> str | None:
        """After a failure: the commit that holds the files all the same, else None with everything put back."""
        try:
            landed = self._landed()
            if landed is None:
                self._undo(killed=_was_killed(error))
            elif _was_killed(error):
                self._catch_up()
        except (MemorydError, OSError) as second:
            if isinstance(error, MemorydError):
                error.details |= {"settle": True, "undo": str(second)}
                raise error from second
            raise VaultError(f"{error}; and undoing it failed: {second}", settle=True) from second
        if landed is None and isinstance(error, OSError):
            raise explained(error, self._git.repo) from error
        return landed

    def _landed(self) -> str | None:
        """The commit on HEAD that holds all files (ours, or as a hook changed them), if there is one."""
        head = self._git.head()
        if head is None:
            return None
        now = walk(self._git, head, self._paths)[1]
        moved = head != self._parent
        old = walk(self._git, self._parent, self._paths)[1] if moved and self._parent else {}
        for write in self._writes:
            entry = now[write.path]
            changed = moved and entry not in (None, old.get(write.path))
            if entry != blob_id(write.data, self._places.hash) and not changed:
                return None
        return self._git.log_commit(self._paths[0]) or head

    def _catch_up(self) -> None:
        """Do what a git that was killed after its commit point left undone: its locks, and the index behind them."""
        if remove_stale(self._git, self._files, self._last_pid, self._started, 0.0):
            self._git.write(["reset", "-q", "--", *map(literal, self._paths)], timeout=CLEANUP_SECONDS)

    def _undo(self, *, killed: bool) -> None:
        for write in self._placed:
            self._folder.sweep(write.path)
            if self._folder.holds(write.path, write.sha256):
                self._folder.restore(write.path, self._former[write.path])
            self._keeper.drop(write.path, write.sha256)
        self._folder.drop_empty(self._made)
        if killed and self._last_pid:
            with suppress(GitLocked):  # then the next git call says so
                remove_stale(self._git, self._files, self._last_pid, self._started, 0.0)
        if self._staged:
            self._git.write(["update-index", "--force-remove", "--", *self._staged], timeout=CLEANUP_SECONDS)

    def _confirm(self, commit: str) -> VaultCommit:
        """Make the commit durable and read back what it holds."""
        try:
            touched, entries = walk(self._git, commit, self._paths)
            head = self._git.head()
            if head is not None and head != commit:
                entries = walk(self._git, head, self._paths)[1]
            make_durable(self._places, self._files, touched, self._quiet)
            files = self._committed_bytes(entries)
            self._put_back_messages()
            for write in self._writes:
                self._keeper.drop(write.path, write.sha256)
        except OSError as error:
            raise VaultError(f"Commit {commit} may not be on disk yet: {error}.", settle=True) from error
        return VaultCommit(commit, files)

    def _put_back_messages(self) -> None:
        """A message that waits for the person's own next commit, and that git took for this one's."""
        for name, words in self._prepared.items():
            if not (self._places.own / name).exists():
                self._files.replace(self._places.own / name, words, owner=OWNER, mode=0o644)

    def _committed_bytes(self, entries: Mapping[bytes, str | None]) -> dict[bytes, bytes]:
        files: dict[bytes, bytes] = {}
        changed: list[Word] = []
        for write in self._writes:
            oid = entries[write.path]
            if oid is None:
                raise GitFailed(f"HEAD does not hold {shown_path(write.path)} after the commit.", settle=True)
            files[write.path] = write.data
            if oid != blob_id(write.data, self._places.hash):
                files[write.path] = self._git.object(oid)
                changed.append(literal(write.path))
        if changed:  # the index still has the entry from before the hook
            self._git.write(["reset", "-q", "--", *changed], timeout=CLEANUP_SECONDS)
        return files


def _was_killed(error: BaseException) -> bool:
    """Whether a git of ours ended by a signal, so that it may have left its locks."""
    return isinstance(error, GitTimeout) or (isinstance(error, GitFailed) and error.details.get("exit_code", 0) < 0)


def walk(git: Git, commit: str, paths: Sequence[bytes]) -> tuple[set[str] | None, dict[bytes, str | None]]:
    """Objects on the way to the paths in a commit (None: cannot tell) and the blob ids there."""
    try:
        walked = walk_commit(git.places(), commit, paths)
    except CannotTell:
        return None, git.tree_entries(commit, paths)
    return walked.objects, walked.entries


def make_durable(
    places: Places, files: Files, touched: set[str] | None, quiet: Mapping[Path, tuple[int, int]] | None = None
) -> None:
    """Sync the directories that a commit touched: git has synced the files, not their names.

    `touched` are the commit's objects (None: all there are); `quiet` directories are skipped if still as they were.
    """
    objects = places.common / "objects"
    if touched is None:
        folders = [entry for entry in sorted(objects.iterdir()) if entry.name != "info"]
    else:
        folders = [objects / prefix for prefix in sorted({oid[:2] for oid in touched})]
    for folder in dict.fromkeys([*folders, *_name_folders(places)]):
        state = _state(folder)
        if state is not None and (quiet or {}).get(folder) != state:
            files.fsync_dir(folder, owner=OWNER)


def quiet_folders(places: Places) -> dict[Path, tuple[int, int]]:
    """State of the directories that a commit often leaves alone; those that changed just now are left out.

    A change within the same tick of a coarse clock as the reading could not be told from none.
    """
    before = time.time_ns() - _RACY_NS
    states = {folder: _state(folder) for folder in _name_folders(places)}
    return {folder: state for folder, state in states.items() if state is not None and state[0] < before}


def _name_folders(places: Places) -> list[Path]:
    """Directories in which a commit may give or change names, besides those of single objects."""
    folders = [places.common / "objects", places.common / "reftable", places.own / "logs"]
    branch = branch_of(places)
    for base in (places.common / branch, places.common / "logs" / branch) if branch else ():
        folders += [folder for folder in base.parents if folder.is_relative_to(places.common)][:-1]
    return list(dict.fromkeys([*folders, places.common, places.own]))


def _state(folder: Path) -> tuple[int, int] | None:
    try:
        about = folder.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return about.st_mtime_ns, about.st_nlink
