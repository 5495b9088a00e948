"""How is the git program asked, so that no environment, prompt, hook or foreign lock can surprise memoryd?

Every call has a time limit, a cleaned environment, no terminal and its own process group. What goes wrong comes back
as a typed error with git's (or a hook's) words, shortened.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memoryd.errors import (
    DiskFull,
    GitFailed,
    GitLocked,
    GitMissing,
    GitTimeout,
    GitTooOld,
    VaultError,
    VaultNotARepository,
)
from memoryd.files import Files
from memoryd.sources.objects import CannotTell, Places, head_of, stands_on_branch
from memoryd.sources.process import Finished, run_bounded

OLDEST = (2, 36)
VERSION_SECONDS = 10.0
FALLBACK_NAME = "memoryd"
FALLBACK_EMAIL = "memoryd@localhost"
WRITER_FILE = "memoryd.writer"
"""File in the git directory on which every writing git of ours holds a shared lock for as long as it lives."""

SpawnHook = Callable[[int, float], None]
"""Learns the pid and start time (seconds since the epoch) of a git that is about to write."""
Word = str | bytes

_ALWAYS = (
    "--no-pager",
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.preloadIndex=false"),
    *("-c", "core.autocrlf=false"),
    *("-c", "core.safecrlf=false"),
    *("-c", "core.attributesFile=/dev/null"),
    *("-c", "core.abbrev=no"),
)
DURABLE = (
    *("-c", "core.fsync=all"),
    *("-c", "core.fsyncMethod=fsync"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
    *("-c", "i18n.commitEncoding=UTF-8"),
)
_LOCK = re.compile(r"Unable to create '(.+?\.lock)': File exists")
_MOVED = re.compile(r"cannot lock ref '(.+?)': is at [0-9a-f]+ but expected")
_FULL = re.compile(
    r"^(?:fatal|error): .*(?:No space left on device|Disk quota exceeded|Out of diskspace)", re.MULTILINE
)
_MESSAGE_LIMIT = 2000


class Git:
    """git for one work tree at `repo`.

    `timeout` seconds limit each call, `lock_wait` seconds the patience with a lock that someone else holds;
    `environment` (default: this process's) is where PATH, HOME and the like come from; `program` is looked up on
    that PATH; `clock` tells the time that commits carry. Nothing runs before the first call.
    """

    def __init__(
        self,
        repo: Path,
        *,
        timeout: float,
        files: Files,
        environment: Mapping[str, str] | None = None,
        program: str = "git",
        lock_wait: float = 3.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.repo = repo
        self.timeout = timeout
        self.files = files
        self.lock_wait = min(lock_wait, timeout)
        self._environment = clean_environment(os.environ if environment is None else environment, repo)
        self._program = program
        self._clock = clock
        self._binary: str | None = None
        self._places: Places | None = None
        self._has_identity = False

    def check_version(self) -> None:
        """Find git and make sure that it is new enough, once. Raises GitMissing, GitTooOld."""
        if self._binary is not None:
            return
        self._binary = find_git(self._program, self._environment, self.timeout)[0]

    def places(self) -> Places:
        """The repository's directories, asked once. Raises VaultNotARepository, GitFailed (foreign owner) ..."""
        if self._places is None:
            questions = ("--absolute-git-dir", "--git-common-dir", "--show-object-format", "--is-bare-repository")
            lines = self.run(["rev-parse", *questions]).out.split(b"\n")
            if lines[3] == b"true":
                raise VaultNotARepository(f"{self.repo} is a bare repository, without a work tree.")
            common = self.repo / os.fsdecode(lines[1])
            self._places = Places(Path(os.fsdecode(lines[0])), Path(os.path.realpath(common)), lines[2].decode())
        return self._places

    def run(
        self,
        arguments: Sequence[Word],
        *,
        timeout: float | None = None,
        cwd: Path | None = None,
        accept: Sequence[int] = (0,),
        feed: bytes | None = None,
        out_limit: int = 64 << 20,
        settings: Sequence[str] = (),
        stop: Callable[[], bool] = lambda: False,
    ) -> Finished:
        """A call that reads: it takes no optional lock. Raises a VaultError for an exit code not in `accept`."""
        self.check_version()
        command = [self._binary or self._program, *_ALWAYS, *settings, *arguments]
        environment = {**self._environment, "GIT_OPTIONAL_LOCKS": "0"}
        limit = self.timeout if timeout is None else timeout
        finished = self._spawn(command, cwd or self.repo, limit, feed, None, None, environment, out_limit, stop)
        return self._judge(finished, arguments, accept, limit)

    def write(
        self,
        arguments: Sequence[Word],
        *,
        timeout: float,
        settings: Sequence[str] = (),
        feed: bytes | None = None,
        spawned: SpawnHook | None = None,
    ) -> Finished:
        """A call that changes the repository durably; short foreign locks are waited for.

        Raises GitLocked when a lock lasts longer than `lock_wait`, GitTimeout, DiskFull, GitFailed.
        """
        self.check_version()
        command = [self._binary or self._program, *_ALWAYS, *DURABLE, *settings, *arguments]
        started = time.monotonic()
        pause = 0.02
        while True:
            left = timeout - (time.monotonic() - started)
            try:
                finished = self._spawn_writer(command, max(left, 0.0), feed, spawned)
                return self._judge(finished, arguments, (0,), timeout)
            except GitLocked:
                if time.monotonic() - started + pause > min(self.lock_wait, timeout):
                    raise
            time.sleep(pause)
            pause = min(pause * 1.5, 0.25)

    def identity(self) -> list[str]:
        """Options that give commits the stated fallback identity, empty where the user configured one."""
        if self._has_identity:
            return []
        asked = self.run(
            ["config", "-z", "--get-regexp", r"^(user|author|committer)\.(name|email)$"], accept=(0, 1)
        ).out.split(b"\0")
        keys = {entry.split(b"\n")[0].decode() for entry in asked if b"\n" in entry and entry.split(b"\n", 1)[1]}
        options: list[str] = []
        if not _configured(keys, "name"):
            options += ["-c", f"user.name={FALLBACK_NAME}"]
        if not _configured(keys, "email") and not self._environment.get("EMAIL"):
            options += ["-c", f"user.email={FALLBACK_EMAIL}"]
        self._has_identity = not options
        return options

    def head(self) -> str | None:
        """The commit that HEAD names; None on a branch without commits. Usually without a process."""
        try:
            return head_of(self.places())
        except CannotTell:
            answer = self.run(["rev-parse", "-q", "--verify", "HEAD^{commit}"], accept=(0, 1))
            return answer.out.decode().strip() or None

    def detached(self) -> bool:
        """Whether HEAD stands on no branch: a commit made there is lost at the next checkout."""
        if stands_on_branch(self.places()):
            return False
        return self.run(["symbolic-ref", "-q", "HEAD"], accept=(0, 1)).code == 1

    def blob(self, commit: str, path: bytes) -> bytes | None:
        """The bytes of a file in a commit; None where it is not there or is no regular file."""
        entry = self.tree_entries(commit, [path])[path]
        return None if entry is None else self.object(entry)

    def object(self, oid: str) -> bytes:
        """The bytes of a blob."""
        return self.run(["cat-file", "blob", oid], out_limit=1 << 30).out

    def tree_entries(self, commit: str, paths: Sequence[bytes]) -> dict[bytes, str | None]:
        """Blob ids of files in a commit; None for what is not there (links and submodules count as absent)."""
        found: dict[bytes, str | None] = dict.fromkeys(paths)
        answer = self.run(["ls-tree", "-z", "--full-tree", commit, "--", *(literal(path) for path in paths)])
        for line in answer.out.split(b"\0"):
            about, _, path = line.partition(b"\t")
            mode, _, oid = about.rpartition(b" ")
            if path in found and mode.startswith(b"100"):
                found[path] = oid.decode()
        return found

    def log_commit(self, path: bytes) -> str | None:
        """The newest commit on HEAD that changed a path; None where there is none."""
        if self.head() is None:
            return None
        return self.run(["log", "-1", "--format=%H", "--", literal(path)]).out.decode().strip() or None

    def _spawn_writer(
        self, command: Sequence[Word], timeout: float, feed: bytes | None, spawned: SpawnHook | None
    ) -> Finished:
        """Run with a shared kernel lock that lives exactly as long as the program and its children."""
        now = time.time()
        held = os.open(self.places().own / WRITER_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        def started(pid: int) -> None:
            if spawned is not None:
                spawned(pid, now)

        try:
            fcntl.flock(held, fcntl.LOCK_SH)
            return self._spawn(command, self.repo, timeout, feed, held, started, self._dated())
        finally:
            os.close(held)

    def _dated(self) -> dict[str, str]:
        """The environment of a writing git: what it commits carries the time of our clock, in the local zone."""
        now = self._clock()
        date = f"@{int(now)} {time.strftime('%z', time.localtime(now))}"
        return {**self._environment, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}

    def _spawn(
        self,
        command: Sequence[Word],
        cwd: Path,
        timeout: float,
        feed: bytes | None,
        held: int | None,
        spawned: Callable[[int], None] | None,
        environment: Mapping[str, str] | None = None,
        out_limit: int = 1 << 20,
        stop: Callable[[], bool] = lambda: False,
    ) -> Finished:
        env = self._environment if environment is None else environment
        try:
            return run_bounded(
                command,
                cwd=cwd,
                env=env,
                timeout=timeout,
                out_limit=out_limit,
                feed=feed,
                held=held,
                spawned=spawned,
                stop=stop,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            if cwd.is_dir():
                raise GitMissing(f"{os.fsdecode(command[0])} cannot be started: {error.strerror}.") from error
            raise VaultNotARepository(f"{cwd} is not a directory.", vault=str(cwd)) from error

    def _judge(self, done: Finished, arguments: Sequence[Word], accept: Sequence[int], limit: float) -> Finished:
        if not done.timed_out and not done.flooded and done.code in accept:
            return done
        raise self._error(done, str(arguments[0]), limit)

    def _error(self, done: Finished, verb: str, limit: float) -> VaultError | DiskFull:
        where = {"vault": str(self.repo)}
        if done.timed_out:
            return GitTimeout(f"`git {verb}` in {self.repo} did not finish within {limit:g} s.", **where)
        words = done.err if len(done.err) <= _MESSAGE_LIMIT else f"{done.err[:1000]}\n[...]\n{done.err[-1000:]}"
        lock = _LOCK.search(done.err)
        if lock is not None:
            return GitLocked(f"Another git holds {lock[1]}.", lock=lock[1], **where)
        moved = _MOVED.search(done.err)
        if moved is not None:
            return GitLocked(f"Another git is moving {moved[1]} of {self.repo}.", lock=moved[1], **where)
        if _FULL.search(done.err):
            return DiskFull(f"No space is left for `git {verb}` in {self.repo}.", **where)
        if "dubious ownership" in done.err:
            allow = f"git config --global --add safe.directory {self.repo}"
            step = f"Give the vault to the user who runs memoryd (chown -R), or allow it: `{allow}`."
            return GitFailed(f"git refuses {self.repo}: another user owns it.", next_step=step, **where)
        if "not a git repository" in done.err:
            return VaultNotARepository(f"{self.repo} is not a git repository.", **where)
        words = words or ("too much output" if done.flooded else f"exit code {done.code}")
        return GitFailed(f"`git {verb}` in {self.repo} failed: {words}", exit_code=done.code, **where)


def find_git(program: str, environment: Mapping[str, str], timeout: float) -> tuple[str, str]:
    """(absolute path, version) of the git on the environment's PATH. Raises GitMissing, GitTooOld."""
    found = shutil.which(program, path=environment.get("PATH", os.defpath))
    if found is None:
        raise GitMissing(f"{program} is not on PATH.")
    found = str(Path(found).absolute())
    try:
        answer = run_bounded([found, "version"], cwd=Path("/"), env=environment, timeout=timeout, out_limit=4096)
    except OSError as error:
        raise GitMissing(f"{found} cannot be started: {error.strerror}.", program=found) from error
    match = re.search(r"git version ((\d+)\.(\d+)\S*)", answer.out.decode("utf-8", "replace"))
    if answer.code != 0 or match is None:
        raise GitMissing(f"{found} does not answer `git version`: {answer.err[:200]}", program=found)
    if (int(match[2]), int(match[3])) < OLDEST:
        needed = f"{OLDEST[0]}.{OLDEST[1]}"
        raise GitTooOld(f"{found} is version {match[1]}; the vault needs {needed} or newer.", program=found)
    return found, match[1]


def require_git(path: str | None) -> str:
    """The version of the git on a PATH value (None: the system's default). Raises GitMissing, GitTooOld."""
    environment = {} if path is None else {"PATH": path}
    return find_git("git", environment, VERSION_SECONDS)[1]


def clean_environment(given: Mapping[str, str], repo: Path) -> dict[str, str]:
    """What a git of ours may see: nothing called GIT_*, no prompts, English messages, no repository above `repo`."""
    kept = {name: value for name, value in given.items() if not name.startswith(("GIT_", "LC_", "LANGUAGE"))}
    ceiling = {str(repo.absolute().parent), str(repo.resolve().parent)}
    return kept | {
        "LC_ALL": "C.UTF-8" if "UTF" in kept.get("LANG", "UTF").upper() else "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_EDITOR": "true",
        "GIT_SEQUENCE_EDITOR": "true",
        "GIT_ASKPASS": "false",
        "SSH_ASKPASS": "false",
        "GIT_PAGER": "cat",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": os.pathsep.join(sorted(ceiling)),
    }


def literal(path: bytes) -> bytes:
    """A pathspec that means exactly this path, whatever characters it holds."""
    return b":(literal)" + path


def _configured(keys: set[str], part: str) -> bool:
    return f"user.{part}" in keys or {f"author.{part}", f"committer.{part}"} <= keys
