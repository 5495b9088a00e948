"""How does the vault talk to its remote, so that nothing prompts, hangs or is overwritten?

Fetch and push touch neither HEAD, index nor files, so they need no lane. Nothing is ever forced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memoryd.errors import GitFailed, GitTimeout, InvalidInput, PushRejected, RemoteFailed
from memoryd.sources.git import DURABLE, Git, Word
from memoryd.sources.process import Finished

NAME = "origin"
Stop = Callable[[], bool]
_SECRET = re.compile(r"(?<=://)[^/@\s]+@")
_PASSWORD = re.compile(r"[a-z+]+://[^/@\s]*:[^/@\s]*@", re.IGNORECASE)
_MOVED = re.compile(r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to update ref|reference already")
_SETTINGS = (
    *DURABLE,
    *("-c", "credential.interactive=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "submodule.recurse=false"),
    *("-c", "push.followTags=false"),
    *("-c", "fetch.writeCommitGraph=false"),
)


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where a branch comes from and goes to: the remote's name and address, the branch there."""

    remote: str
    url: str
    branch: str

    @property
    def tracking(self) -> str:
        """The reference that remembers what was fetched."""
        return f"refs/remotes/{self.remote}/{self.branch}"

    @property
    def shown(self) -> str:
        """As messages name it."""
        return f"{self.remote}/{self.branch}"


def shown_url(text: str) -> str:
    """An address (or a message that holds one) without the secrets in it."""
    return _SECRET.sub("", text)


def checked_address(url: str) -> str:
    """An address that means the same in every directory and holds no password. Raises InvalidInput."""
    if not url.strip() or url.startswith("-") or any(char in url for char in "\0\n\r"):
        raise InvalidInput(f"{url[:80]!r} is no address of a git repository.", parameter="remote")
    if _PASSWORD.match(url):
        raise InvalidInput(
            "The address holds a password, which git and memoryd would keep in plain text.",
            next_step="Give the address without it and let a credential helper or ssh log in.",
            parameter="remote",
        )
    place = Path(url).expanduser()
    return str(place.absolute()) if place.exists() else url


def remotes(git: Git) -> dict[str, str]:
    """Names and addresses, in the order of the configuration."""
    out = git.run(["config", "-z", "--get-regexp", r"^remote\..*\.url$"], accept=(0, 1)).out
    pairs = (entry.decode("utf-8", "replace").partition("\n") for entry in out.split(b"\0") if entry)
    found: dict[str, str] = {}
    for key, _, url in pairs:
        found.setdefault(key.removeprefix("remote.").removesuffix(".url"), url)
    return found


def upstream(git: Git, branch: str) -> Upstream | None:
    """What the branch follows by configuration, else the branch of its name at the only remote or `origin`."""
    known = remotes(git)
    name = setting(git, f"branch.{branch}.remote")
    if name not in known:
        name = NAME if NAME in known else next(iter(known)) if len(known) == 1 else None
    if name is None:
        return None
    there = setting(git, f"branch.{branch}.merge") or ""
    return Upstream(name, known[name], there.removeprefix("refs/heads/") or branch)


def setting(git: Git, key: str) -> str | None:
    """One value of git's configuration, the last one given."""
    return git.run(["config", "--get", key], accept=(0, 1)).out.decode("utf-8", "replace").strip() or None


def branches(git: Git, remote: str, *, timeout: float, stop: Stop = lambda: False) -> tuple[list[str], str | None]:
    """The remote's branches, and the one that its HEAD names. Raises RemoteFailed."""
    words = ["ls-remote", "--symref", "--", remote, "HEAD", "refs/heads/*"]
    lines = _ask(git, words, timeout, stop).out.decode("utf-8", "replace").splitlines()
    rows = [line.split("\t") for line in lines if "\t" in line]
    heads = [name.removeprefix("refs/heads/") for _, name in rows if name.startswith("refs/heads/")]
    named = [left.removeprefix("ref: refs/heads/") for left, name in rows if name == "HEAD" and left[:5] == "ref: "]
    return heads, named[0] if named and named[0] in heads else None


def fetch(git: Git, source: Upstream, *, timeout: float, stop: Stop = lambda: False) -> str | None:
    """Fetch the remote's branches; the commit of the one that counts, None where the remote has none by its name.

    Raises RemoteFailed.
    """
    words = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--prune", "--"]
    _ask(git, [*words, source.remote, f"+refs/heads/*:refs/remotes/{source.remote}/*"], timeout, stop)
    return tip(git, source)


def tip(git: Git, source: Upstream) -> str | None:
    """What was fetched last."""
    answer = git.run(["rev-parse", "-q", "--verify", f"{source.tracking}^{{commit}}"], accept=(0, 1))
    return answer.out.decode().strip() or None


def push(git: Git, source: Upstream, commit: str, *, timeout: float, stop: Stop = lambda: False) -> bool:
    """Send a commit to the branch; False where the branch moved meanwhile.

    Raises PushRejected (a hook here or there, a right that lacks) and RemoteFailed.
    """
    words = ["push", "--porcelain", "--no-recurse-submodules", "--", source.remote]
    done = _ask(git, [*words, f"{commit}:refs/heads/{source.branch}"], timeout, stop, accept=(0, 1))
    if done.code == 0:
        return True
    lines = done.out.decode("utf-8", "replace").splitlines()
    refused = [line.split("\t")[-1] for line in lines if line.startswith("!")]
    if refused and _MOVED.search(refused[0]):
        return False
    words_of_it = shown_url("; ".join([*refused, done.err][:2]).strip() or "without a reason")
    raise PushRejected(f"{source.shown} did not take the commits: {words_of_it}", remote=source.remote)


def _ask(git: Git, words: Sequence[Word], timeout: float, stop: Stop, accept: Sequence[int] = (0,)) -> Finished:
    ssh = setting(git, "core.sshCommand") or "ssh"
    quiet = ("-c", f"core.sshCommand={ssh} -o BatchMode=yes -o ConnectTimeout={max(1, int(timeout / 2))}")
    try:
        return git.run(words, timeout=timeout, settings=[*_SETTINGS, *quiet], stop=stop, accept=accept)
    except GitTimeout as error:
        reason = "the daemon is stopping" if stop() else f"no answer within {timeout:g} s"
        raise RemoteFailed(f"`git {words[0]!s}` was ended: {reason}.", **error.details) from error
    except GitFailed as error:
        raise RemoteFailed(shown_url(error.message), **error.details) from error
