"""How does the vault take another history in, whole or not at all?

git merges; a conflict that only a person can settle is undone before anybody sees half of it. A mark in the git
directory tells the next start of a merge that was cut off.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memoryd.errors import DiskFull, GitFailed, GitLocked, VaultBusy, VaultConflict, VaultError
from memoryd.files import Files
from memoryd.records import shown_path
from memoryd.sources.commit import CLEANUP_SECONDS, make_durable
from memoryd.sources.folder import OWNER, Folder
from memoryd.sources.git import Git, Word, literal
from memoryd.sources.locks import drop_merge_locks, remove_stale, writer_lives
from memoryd.sources.objects import blob_id
from memoryd.sources.same import settled_bytes, why

MARK = "memoryd.merge"
"""File in the git directory while a merge of ours is under way."""
_SETTINGS = (
    *("-c", "merge.directoryRenames=false"),
    *("-c", "merge.conflictStyle=merge"),
    *("-c", "merge.autoStash=false"),
    *("-c", "rerere.enabled=false"),
    *("-c", "submodule.recurse=false"),
)
_RESET_BATCH = 100
_IN_THE_WAY = ("Your local changes", "untracked working tree files", "not uptodate", "would be overwritten")


@dataclass(frozen=True, slots=True)
class Merged:
    """The commit that HEAD names now, and the files in which both sides differed and were settled by rule."""

    commit: str
    settled: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Versions:
    """One file in conflict: its bytes before, here and there (None: not there)."""

    base: bytes | None = None
    here: bytes | None = None
    there: bytes | None = None


class Merge:
    """One merge of the commit `theirs` (called `name`) into the branch that is checked out. The caller holds the lane.

    `foreign` lets a history in that has no commit in common.
    """

    def __init__(self, git: Git, folder: Folder, files: Files, theirs: str, name: str, *, foreign: bool) -> None:
        self._git = git
        self._folder = folder
        self._files = files
        self._theirs = theirs
        self._name = name
        self._foreign = ["--allow-unrelated-histories"] if foreign else []
        self._settings = [*_SETTINGS, *git.identity()]

    def run(self) -> Merged:
        """Merge and make it durable. Raises VaultConflict, VaultBusy, GitFailed ...; then all is as it was."""
        mark = Mark(self._git, self._folder, self._files)
        mark.put(self._theirs)
        settled: tuple[bytes, ...] = ()
        try:
            settled = self._merged()
            self._files.fault("vault.merged")
        except (VaultError, DiskFull, OSError) as error:
            if not _settled(mark, error):
                raise
        mark.settle(cut_off=False)
        commit = self._git.head()
        assert commit is not None  # a merge ends on a commit
        return Merged(commit, settled)

    def _merged(self) -> tuple[bytes, ...]:
        words = [
            "merge",
            "--commit",
            "--no-edit",
            "--no-stat",
            "--ff",
            "--no-squash",
            *self._foreign,
            "-m",
            f"Merge {self._name}",
        ]
        try:
            self._write([*words, self._theirs])
        except GitFailed as error:
            conflicts = unmerged(self._git)
            if not conflicts:
                raise self._refused(error) from error
            return self._settle_all(conflicts)
        return ()

    def _settle_all(self, conflicts: Mapping[bytes, Versions]) -> tuple[bytes, ...]:
        chosen = {path: settled_bytes(path, one.base, one.here, one.there) for path, one in conflicts.items()}
        open_ones = [path for path, data in chosen.items() if data is None]
        if open_ones:
            raise self._conflict({path: conflicts[path] for path in open_ones})
        for path, data in chosen.items():
            self._folder.restore(path, data)
        self._write(["add", "--force", "--sparse", "--", *map(literal, chosen)])
        self._write(["commit", "--quiet", f"--message=Merge {self._name}"])
        return tuple(chosen)

    def _write(self, words: Sequence[Word]) -> None:
        mark = Mark(self._git, self._folder, self._files)
        self._git.write(words, settings=self._settings, timeout=self._git.timeout, spawned=mark.name_git)

    def _refused(self, error: GitFailed) -> VaultError:
        if not any(words in error.message for words in _IN_THE_WAY):
            return error
        listed = [line.strip() for line in error.message.splitlines() if line.startswith(("\t", "  "))]
        return VaultBusy(
            f"{self._name} changes files that were edited or staged here and not committed: {', '.join(listed)}.",
            next_step=f"Commit or put away your edits (`git -C {self._git.repo} status`), then sync again.",
            files=listed,
            vault=str(self._git.repo),
        )

    def _conflict(self, conflicts: Mapping[bytes, Versions]) -> VaultConflict:
        files = [self._both_sides(path, one) for path, one in sorted(conflicts.items())]
        told = "; ".join(f"{one['path']} ({one['why']})" for one in files)
        step = (
            f"In {self._git.repo}: `git merge {self._name}`, keep what holds in each named file (or `git checkout "
            "--ours|--theirs -- FILE`), `git add` it, `git commit`, then `memoryd vault sync`. See docs/vault.md."
        )
        message = f"{self._name} and this vault differ in {len(files)} of their files: {told}. Nothing was merged."
        return VaultConflict(message, next_step=step, files=files, vault=str(self._git.repo))

    def _both_sides(self, path: bytes, one: Versions) -> dict[str, Any]:
        return {
            "path": shown_path(path),
            "why": why(one.base, one.here, one.there),
            "here": self._last(path, "HEAD"),
            "there": self._last(path, self._theirs),
        }

    def _last(self, path: bytes, commit: str) -> str:
        out = self._git.run(["log", "-1", "--format=%h %s", commit, "--", literal(path)]).out
        return out.decode("utf-8", "replace").strip()


class Mark:
    """The note of a merge under way: what is merged, and which git does it."""

    def __init__(self, git: Git, folder: Folder, files: Files) -> None:
        self._git = git
        self._folder = folder
        self._files = files
        self._path = git.places().own / MARK

    def put(self, theirs: str) -> None:
        """Note a merge before its first step, with the files in its way that are a person's work."""
        touched = changes(self._git, self._git.head(), theirs)
        kept = [os.fsdecode(path) for path, former, _ in touched if not self._is_as(path, former)]
        self._note({"theirs": theirs, "pid": os.getpid(), "started": time.time(), "kept": kept})

    def name_git(self, pid: int, started: float) -> None:
        """Note the git that is about to work."""
        self._note({**self._read(), "pid": pid, "started": started})

    def settle(self, *, cut_off: bool = True, patience: float | None = None) -> bool:
        """End a merge that was noted: durable where HEAD holds it (True), else undone. True where none is noted.

        One that was `cut_off` may have left files behind. Raises GitLocked where a foreign lock stays, GitFailed.
        """
        if not os.path.lexists(self._path):
            return True
        note = self._read()
        landed = True
        if note:
            if cut_off:
                wait = self._git.lock_wait if patience is None else patience
                remove_stale(self._git, self._files, int(note["pid"]), float(note["started"]), wait)
                self._require_rest()
                drop_merge_locks(self._git, self._files, float(note["started"]))
            landed = self._landed(str(note["theirs"]))
            if not landed:
                self._undo(note, cut_off)
            make_durable(self._git.places(), self._files, None)
        self._files.unlink(self._path, owner=OWNER)
        return landed

    def _require_rest(self) -> None:
        """An orphan of ours may still merge, without a lock for a moment."""
        if writer_lives(self._git.places()):
            raise GitLocked(f"A git of memoryd still works in {self._git.repo}.", vault=str(self._git.repo))

    def _landed(self, theirs: str) -> bool:
        if self._git.head() is None:
            return False
        return self._git.run(["merge-base", "--is-ancestor", theirs, "HEAD"], accept=(0, 1)).code == 0

    def _undo(self, note: Mapping[str, Any], cut_off: bool) -> None:
        """Put back what the merge has laid out already; a person's edits, before or since, stay."""
        theirs, kept = str(note["theirs"]), {os.fsencode(path) for path in note.get("kept", ())}
        if self._merging() == theirs:
            self._git.write(["merge", "--abort"], timeout=CLEANUP_SECONDS)
        if not cut_off:
            return
        touched = [one for one in changes(self._git, self._git.head(), theirs) if one[0] not in kept]
        for path, former, coming in touched:
            if not self._is_as(path, former) and self._is_laid_out(path, former, coming):
                self._folder.restore(path, None if former is None else self._git.object(former))
        self._reset([path for path, _, _ in touched])

    def _is_as(self, path: bytes, oid: str | None) -> bool:
        """Whether the file has exactly the bytes of this blob, or is not there as there is none."""
        data = self._peek(path)
        found = None if data is None else blob_id(data, self._git.places().hash)
        return found == oid and (data is not None or not self._folder.exists(path))

    def _is_laid_out(self, path: bytes, former: str | None, coming: str | None) -> bool:
        """Whether the file is what a merge leaves when it is cut off: gone, whole, or torn."""
        data = self._peek(path)
        if data is None:
            return former is not None and not self._folder.exists(path)
        return coming is not None and self._git.object(coming).startswith(data)

    def _peek(self, path: bytes) -> bytes | None:
        with suppress(VaultError):  # a link, a special file: somebody's work
            return self._folder.peek(path)
        return None

    def _reset(self, paths: Sequence[bytes]) -> None:
        for start in range(0, len(paths), _RESET_BATCH):
            feed = b"\0".join(literal(path) for path in paths[start : start + _RESET_BATCH])
            words = ["reset", "-q", "--pathspec-from-file=-", "--pathspec-file-nul"]
            self._git.write(words, timeout=self._git.timeout, feed=feed)

    def _merging(self) -> str:
        with suppress(FileNotFoundError):
            return (self._git.places().own / "MERGE_HEAD").read_text().strip()
        return ""

    def _note(self, note: Mapping[str, Any]) -> None:
        self._files.replace(self._path, json.dumps(note).encode(), owner=OWNER)

    def _read(self) -> dict[str, Any]:
        try:
            note: dict[str, Any] = json.loads(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        return note


def _settled(mark: Mark, error: Exception) -> bool:
    """Whether the merge stands all the same; where git's locks stay, the mark stays, and the next look settles it."""
    try:
        return mark.settle(cut_off=_cut_off(error))
    except GitLocked:
        return False


def _cut_off(error: Exception) -> bool:
    """Whether git may have stopped half-way; where it refused, it has put everything back itself."""
    if isinstance(error, GitFailed):
        return int(error.details.get("exit_code", -1)) < 0
    return not isinstance(error, VaultConflict | VaultBusy)


def unmerged(git: Git) -> dict[bytes, Versions]:
    """The files that the index holds in several versions."""
    stages: dict[bytes, dict[str, bytes]] = {}
    for line in git.run(["ls-files", "-u", "-z"]).out.split(b"\0"):
        about, _, path = line.partition(b"\t")
        if path:
            _mode, oid, stage = about.decode().split(" ")
            stages.setdefault(path, {})[stage] = git.object(oid)
    return {path: Versions(one.get("1"), one.get("2"), one.get("3")) for path, one in stages.items()}


def changes(git: Git, head: str | None, theirs: str) -> list[tuple[bytes, str | None, str | None]]:
    """(path, blob at `head`, blob at `theirs`) of the files in which the two differ."""
    before = head or git.run(["hash-object", "-t", "tree", "--stdin"], feed=b"").out.decode().strip()
    out = git.run(["diff-tree", "-r", "-z", "--no-renames", before, theirs]).out.split(b"\0")
    found = []
    for about, path in zip(out[::2], out[1::2], strict=False):
        old_mode, new_mode, old, new, _kind = about.decode().lstrip(":").split(" ")
        sides = [oid if mode.startswith("100") else None for mode, oid in ((old_mode, old), (new_mode, new))]
        found.append((path, sides[0], sides[1]))
    return found
