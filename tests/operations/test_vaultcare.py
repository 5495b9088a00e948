"""Do two homes share a vault through a remote without losing, forcing or hanging, and is told how the vault stands?"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from memoryd.errors import InvalidInput, PushRejected, RemoteFailed, VaultBusy, VaultConflict
from memoryd.files import Files
from memoryd.operations import gateway, reading, vaultcare
from memoryd.operations.check import check
from memoryd.operations.health import status
from memoryd.operations.home import Caller, Home
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import configure, git, opened, settle
from tests.sources.conftest import write_alias

HERE = Caller()


class Homes:
    """Two homes and one bare repository between them."""

    def __init__(self, one: Home, other: Home, bare: Path) -> None:
        self.one = one
        self.other = other
        self.bare = bare

    def connect(self) -> None:
        vaultcare.connect(self.one, str(self.bare))
        vaultcare.connect(self.other, str(self.bare))

    def commits(self) -> set[str]:
        return set(git("rev-list", "--all", cwd=self.bare).split())


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    git("init", "-q", "--bare", "-b", "main", "bare", cwd=tmp_path)
    return tmp_path / "bare"


@pytest.fixture
def homes(tmp_path: Path, bare: Path) -> Iterator[Homes]:
    with ExitStack() as stack:
        one, other = (stack.enter_context(opened(tmp_path / name)) for name in ("one", "other"))
        yield Homes(one, other, bare)


def add(home, content, kind="fact", **other):
    return gateway.add(home, HERE, content=content, type=kind, scope="global", **other)


def supersede(home, identity, content):
    token = gateway.supersede(home, HERE, id=identity, content=content)["confirm"]
    return gateway.supersede(home, HERE, id=identity, content=content, confirm=token)


def found(home, query):
    settle(home)
    return {one["id"] for one in reading.search(home, HERE, query=query, mode="keyword")["memories"]}


def whole(home):
    """The working tree, HEAD, index and what git says of them."""
    root = home.vault.path
    files = {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and ".git" not in p.parts}
    return files, git("rev-parse", "HEAD", cwd=root), git("ls-files", "-s", cwd=root), git("status", "-s", cwd=root)


def hook(folder, name, script):
    path = folder / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return path


# sharing


def test_two_homes_share_what_both_add(homes):
    a = add(homes.one, "Herons nest in the pond.")
    b = add(homes.other, "Pelicans fish at dawn.")
    first = vaultcare.connect(homes.one, str(homes.bare))
    assert (first["outcome"], first["sent"], first["received"], first["remote"]) == ("synced", 1, 0, "origin/main")
    second = vaultcare.connect(homes.other, str(homes.bare))
    assert (second["received"], second["sent"]) == (1, 2), "its own commit and the merge"
    assert found(homes.other, "herons") == {a["id"]}
    third = vaultcare.sync(homes.one)
    assert (third["received"], third["sent"], third["memories"]["added"]) == (2, 0, 1)
    assert found(homes.one, "pelicans") == {b["id"]}
    assert vaultcare.sync(homes.one)["outcome"] == vaultcare.sync(homes.other)["outcome"] == "up to date"
    c, d = add(homes.one, "Bitterns boom."), add(homes.other, "Storks clatter.")
    vaultcare.sync(homes.one)
    merged = vaultcare.sync(homes.other)
    vaultcare.sync(homes.one)
    for home in (homes.one, homes.other):
        assert found(home, "bitterns") == {c["id"]} and found(home, "storks") == {d["id"]}
        assert home.memories.counts(None) == {"in_force": 4}
        assert check(home)["clean"]
    parents = git("rev-list", "--parents", "-1", merged["commit"], cwd=homes.bare).split()
    assert len(parents) == 3, "a merge commit, no rebase"
    for answer in (a, b, c, d):
        assert answer["commit"] in homes.commits(), "commit ids given out stay"
    assert homes.one.vault.head() == homes.other.vault.head()


def test_a_home_without_memories_takes_the_remotes_over_with_its_branch(homes, tmp_path):
    git("symbolic-ref", "HEAD", "refs/heads/trunk", cwd=homes.bare)
    root = homes.one.vault.path
    git("checkout", "-q", "-b", "trunk", cwd=root)
    a = add(homes.one, "Herons nest in the pond.")
    vaultcare.connect(homes.one, str(homes.bare))
    answer = vaultcare.connect(homes.other, str(homes.bare))
    assert (answer["branch"], answer["received"], answer["sent"]) == ("trunk", 1, 0)
    assert found(homes.other, "herons") == {a["id"]}
    assert git("status", "-sb", cwd=homes.other.vault.path) == "## trunk...origin/trunk"
    assert homes.other.vault.head() == a["commit"]


def test_the_same_memory_added_on_both_sides_is_one(homes):
    """Same id, same path; only the times differ, and both homes come to the earlier file."""
    homes.connect()
    add(homes.one, "Unlike.")
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    first = add(homes.one, "Herons nest in the pond.", tags=["one"])
    second = add(homes.other, "Herons nest in the pond.", tags=["two"])
    third = add(homes.other, "Herons nest in the pond, too.")
    assert (first["id"], first["path"]) == (second["id"], second["path"])
    early = (homes.one.vault.path / first["path"]).read_bytes()
    vaultcare.sync(homes.one)
    answer = vaultcare.sync(homes.other)
    assert answer["settled"] == [first["path"]]
    vaultcare.sync(homes.one)
    for home in (homes.one, homes.other):
        assert (home.vault.path / first["path"]).read_bytes() == early
        assert found(home, "herons pond") == {first["id"], third["id"]}
        assert status(home, HERE)["vault"]["faulty"] == []
    assert homes.one.vault.head() == homes.other.vault.head()


def test_the_same_words_under_two_titles_are_told_as_one_id_in_two_files(homes):
    homes.connect()
    first = add(homes.one, "Herons nest in the pond.")
    second = add(homes.other, "Herons nest in the pond.", title="Birds")
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    paths = sorted([first["path"], second["path"]])
    shown = vaultcare.status(homes.other, HERE)
    assert (shown["duplicates"], shown["forks"]) == ([{"id": first["id"], "paths": paths}], [])
    git("rm", "-q", second["path"], cwd=homes.other.vault.path)
    git("commit", "-q", "-m", "one is enough", cwd=homes.other.vault.path)
    vaultcare.sync(homes.other)
    assert vaultcare.sync(homes.one)["memories"]["removed"] == 0
    for home in (homes.one, homes.other):
        assert vaultcare.status(home, HERE)["duplicates"] == []
        assert found(home, "herons") == {first["id"]}


def test_both_supersede_the_same_memory(homes):
    """Nothing is merged, both sides are named; each vault stays usable, and a person's merge ends it."""
    a = add(homes.one, "Herons nest in the pond.")
    homes.connect()
    here = supersede(homes.one, a["id"], "Herons nest in the reeds.")
    there = supersede(homes.other, a["id"], "Herons nest in the trees.")
    vaultcare.sync(homes.one)
    before = whole(homes.other)
    with pytest.raises(VaultConflict) as refused:
        vaultcare.sync(homes.other)
    error = refused.value
    assert whole(homes.other) == before
    (file,) = error.details["files"]
    assert file["path"] == a["path"]
    assert file["why"] == f"superseded by {there['id'][:8]} here, superseded by {here['id'][:8]} there"
    assert "Supersede" in file["here"] and "Supersede" in file["there"]
    assert "git merge origin/main" in error.next_step and "docs/vault.md" in error.next_step
    assert add(homes.other, "Bitterns boom.")["outcome"] == "added", "the vault stays usable"
    assert found(homes.other, "herons") == {there["id"]}
    root = homes.other.vault.path
    with pytest.raises(subprocess.CalledProcessError):
        git("merge", "-q", "origin/main", cwd=root)
    with pytest.raises(VaultBusy):
        vaultcare.sync(homes.other)
    git("checkout", "-q", "--theirs", "--", a["path"], cwd=root)
    git("add", "--", a["path"], cwd=root)
    git("commit", "-q", "--no-edit", cwd=root)
    answer = vaultcare.sync(homes.other)
    assert answer["forks"] == [{"fact": a["fact"], "ids": sorted([here["id"], there["id"]])}]
    vaultcare.sync(homes.one)
    for home in (homes.one, homes.other):
        assert found(home, "herons") == {here["id"], there["id"]}
        assert vaultcare.status(home, HERE)["forks"] == answer["forks"]
    token = gateway.archive(homes.one, HERE, id=there["id"], reason="the reeds are right")["confirm"]
    gateway.archive(homes.one, HERE, id=there["id"], reason="the reeds are right", confirm=token)
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    for home in (homes.one, homes.other):
        assert found(home, "herons") == {here["id"]}
        assert vaultcare.status(home, HERE)["forks"] == []


def test_the_same_supersede_on_both_sides_is_no_conflict(homes):
    a = add(homes.one, "Herons nest in the pond.")
    homes.connect()
    new = [supersede(home, a["id"], "Herons nest in the reeds.")["id"] for home in (homes.one, homes.other)]
    assert new[0] == new[1]
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    vaultcare.sync(homes.one)
    for home in (homes.one, homes.other):
        assert found(home, "herons") == {new[0]}
        assert home.memories.counts(None) == {"in_force": 1, "superseded": 1}
    assert homes.one.vault.head() == homes.other.vault.head()


def test_alias_tables_of_both_sides_are_joined(homes):
    add(homes.one, "Herons nest in the pond.")
    homes.connect()
    for home, key in ((homes.one, "remote:a"), (homes.other, "remote:b")):
        write_alias(home.vault, key, f"p-{key[-1]}-0011aabb")
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    assert homes.other.vault.read_aliases() == {"remote:a": "p-a-0011aabb", "remote:b": "p-b-0011aabb"}


def test_a_merge_takes_none_of_a_persons_work_along(homes):
    """H33 for a merge: edits elsewhere stay; an edit or a staged file in the way is named, and nothing moves."""
    a = add(homes.one, "Herons nest in the pond.")
    b = add(homes.one, "Pelicans fish at dawn.")
    homes.connect()
    supersede(homes.one, a["id"], "Herons nest in the reeds.")
    vaultcare.sync(homes.one)
    root = homes.other.vault.path
    (root / b["path"]).write_text((root / b["path"]).read_text().replace("dawn", "dusk"))
    (root / "draft.md").write_text("mine")
    answer = vaultcare.sync(homes.other)
    assert sorted(answer["uncommitted"]) == sorted([b["path"], "draft.md"])
    assert "dusk" in (root / b["path"]).read_text() and (root / "draft.md").read_text() == "mine"
    supersede(homes.one, b["id"], "Pelicans fish at noon.")
    vaultcare.sync(homes.one)
    before = whole(homes.other)
    with pytest.raises(VaultBusy) as refused:
        vaultcare.sync(homes.other)
    assert b["path"] in refused.value.message
    assert whole(homes.other) == before
    git("checkout", "-q", "--", b["path"], cwd=root)
    git("add", "draft.md", cwd=root)
    add(homes.other, "Bitterns boom.")
    before = whole(homes.other)
    with pytest.raises(VaultBusy, match="draft.md"):
        vaultcare.sync(homes.other)
    assert whole(homes.other) == before
    git("rm", "-q", "--cached", "draft.md", cwd=root)
    assert vaultcare.sync(homes.other)["received"] == 1


# refusals and failures


def test_a_remote_that_moves_meanwhile_is_merged_once_more(homes):
    homes.connect()
    add(homes.one, "Herons nest in the pond.")
    vaultcare.sync(homes.one)
    vaultcare.sync(homes.other)
    moves = []

    def meanwhile(_done, _total, note):
        if note == "pushing" and len(moves) < limit:
            moves.append(add(homes.other, f"Pelican number {len(moves)} fishes.")["id"])
            root = homes.other.vault.path
            git("push", "-q", "origin", "HEAD:main", cwd=root)

    limit = 1
    a = add(homes.one, "Bitterns boom.")
    answer = vaultcare.sync(homes.one, progress=meanwhile)
    assert (answer["received"], answer["outcome"]) == (1, "synced")
    assert found(homes.one, "pelican") == set(moves)
    vaultcare.sync(homes.other)
    assert found(homes.other, "bitterns") == {a["id"]}
    limit = 9
    b = add(homes.one, "Storks clatter.")

    def always(done, total, note):
        if note == "pushing":
            git("fetch", "-q", cwd=homes.other.vault.path)
            git("merge", "-q", "--no-edit", "origin/main", cwd=homes.other.vault.path)
            reconcile_vault(homes.other)
        meanwhile(done, total, note)

    with pytest.raises(PushRejected, match="twice"):
        vaultcare.sync(homes.one, progress=always)
    assert found(homes.one, "pelican") == set(moves[:-1]), "what was merged stays"
    assert vaultcare.sync(homes.one)["outcome"] == "synced"
    assert b["commit"] in homes.commits()


def test_a_hook_of_the_remote_that_refuses_speaks(homes):
    homes.connect()
    add(homes.one, "Herons nest in the pond.")
    path = hook(homes.bare, "pre-receive", "echo no herons here >&2; exit 1\n")
    with pytest.raises(PushRejected, match="no herons here"):
        vaultcare.sync(homes.one)
    path.unlink()
    local = hook(homes.one.vault.path / ".git", "pre-push", "echo not from here >&2; exit 1\n")
    with pytest.raises(PushRejected, match="not from here"):
        vaultcare.sync(homes.one)
    local.unlink()
    assert vaultcare.sync(homes.one)["sent"] == 1


@pytest.mark.parametrize("how", ["hook", "signer"])
def test_a_merge_commit_that_is_refused_leaves_no_trace(homes, how, tmp_path):
    homes.connect()
    add(homes.one, "Herons nest in the pond.")
    vaultcare.sync(homes.one)
    add(homes.other, "Pelicans fish at dawn.")
    root = homes.other.vault.path
    if how == "hook":
        hook(root / ".git", "pre-merge-commit", "echo no merges today; exit 1\n")
    else:
        git("config", "commit.gpgSign", "true", cwd=root)
        git("config", "gpg.program", "false", cwd=root)
    before = whole(homes.other)
    with pytest.raises(Exception, match="git merge"):
        vaultcare.sync(homes.other)
    assert whole(homes.other) == before
    assert not (root / ".git" / "MERGE_HEAD").exists() and not (root / ".git" / "memoryd.merge").exists()
    if how == "hook":
        (root / ".git" / "hooks" / "pre-merge-commit").unlink()
    else:
        git("config", "commit.gpgSign", "false", cwd=root)
    assert vaultcare.sync(homes.other)["received"] == 1


@pytest.mark.parametrize("name", ["pre-merge-commit", "post-merge"])
def test_a_merge_hook_that_sleeps_ends_in_time(tmp_path, bare, name):
    """Before the commit all goes back; after it the merge stands."""
    for folder in ("one", "other"):
        configure(tmp_path / folder, vault={"git_timeout_seconds": 2})
    with opened(tmp_path / "one") as one, opened(tmp_path / "other") as other:
        homes = Homes(one, other, bare)
        homes.connect()
        a = add(one, "Herons nest in the pond.")
        vaultcare.sync(one)
        add(other, "Pelicans fish at dawn.")
        path = hook(other.vault.path / ".git", name, "sleep 60\n")
        before = whole(other)
        if name == "post-merge":
            assert vaultcare.sync(other)["received"] == 1
        else:
            with pytest.raises(Exception, match="did not finish within"):
                vaultcare.sync(other)
            assert whole(other) == before
        path.unlink()
        assert vaultcare.sync(other)["outcome"] == ("up to date" if name == "post-merge" else "synced")
        assert found(other, "herons") == {a["id"]}


def test_no_remote_no_branch_and_wrong_addresses_are_clear_errors(homes, tmp_path):
    with pytest.raises(RemoteFailed) as refused:
        vaultcare.sync(homes.one)
    assert "vault init --remote" in refused.value.next_step
    add(homes.one, "Herons nest in the pond.")
    for url in (
        str(tmp_path / "nowhere"),
        "ext::sh -c 'touch /tmp/pwned'",
        "http://127.0.0.1:9/x.git",
        "ssh://127.0.0.1:9/x",
    ):
        with pytest.raises(RemoteFailed):
            vaultcare.connect(homes.one, url)
        assert git("remote", cwd=homes.one.vault.path) == "", "an address that does not answer is not kept"
    for url in ("", "-x", "a\nb"):
        with pytest.raises(InvalidInput):
            vaultcare.connect(homes.one, url)
    vaultcare.connect(homes.one, str(homes.bare))
    with pytest.raises(InvalidInput) as other:
        vaultcare.connect(homes.one, str(tmp_path))
    assert "set-url" in other.value.next_step
    assert vaultcare.connect(homes.one, str(homes.bare))["outcome"] == "up to date"
    git("checkout", "-q", "--detach", cwd=homes.one.vault.path)
    with pytest.raises(VaultBusy, match="detached"):
        vaultcare.sync(homes.one)


def test_a_repository_that_is_no_vault_is_not_taken_in(homes, tmp_path):
    for home in (homes.one, homes.other):
        root = tmp_path / f"code-{home.root.name}"
        root.mkdir()
        git("init", "-q", "-b", "main", cwd=root)
        (root / "README.md").write_text("# A program\n")
        (root / "main.py").write_text("print()\n")
        git("add", "-A", cwd=root)
        git("commit", "-q", "-m", "code", cwd=root)
        if home is homes.one:
            add(home, "Herons nest in the pond.")
        with pytest.raises(RemoteFailed, match="no memories"):
            vaultcare.connect(home, str(root))
        assert not (home.vault.path / "main.py").exists()


def test_secrets_of_an_address_are_not_shown(homes):
    git("remote", "add", "origin", "https://me:token123@127.0.0.1:9/v.git", cwd=homes.one.vault.path)
    shown = vaultcare.status(homes.one, HERE)
    assert shown["remote"]["url"] == "https://127.0.0.1:9/v.git"
    with pytest.raises(RemoteFailed) as refused:
        vaultcare.sync(homes.one)
    assert "token123" not in json.dumps(refused.value.to_dict()) + json.dumps(shown)


@pytest.mark.parametrize("kind", ["ssh", "helper"])
def test_h34_nothing_prompts_and_a_silent_remote_ends_in_time(tmp_path, bare, kind):
    """H34: no terminal, BatchMode for ssh, a blocking helper; adds go on while the network is waited for."""
    configure(tmp_path / "home", vault={"network_timeout_seconds": 6})
    asked = tmp_path / "asked"
    blocker = tmp_path / "block"
    blocker.write_text(f'#!/bin/sh\necho "$@" >> {asked}\nsleep 60\n')
    blocker.chmod(0o755)
    with opened(tmp_path / "home") as home:
        root = home.vault.path
        add(home, "Herons nest in the pond.")
        url = "ssh://host.invalid/vault.git"
        git("config", "core.sshCommand", blocker, cwd=root)
        if kind == "helper":
            git("config", "core.sshCommand", f"{blocker} -i key", cwd=root)
        git("remote", "add", "origin", url, cwd=root)
        errors = []

        def work():
            try:
                vaultcare.sync(home)
            except RemoteFailed as error:
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        while not asked.exists():
            time.sleep(0.01)
        assert add(home, "Pelicans fish at dawn.")["outcome"] == "added"
        assert thread.is_alive(), "the network is still waited for"
        thread.join(30)
        assert "no answer within 6 s" in errors[0].message
        assert "BatchMode=yes" in asked.read_text()
        assert ("-i key" in asked.read_text()) == (kind == "helper")


def test_a_stopping_daemon_leaves_no_fetch_behind(tmp_path, bare):
    blocker = tmp_path / "block"
    blocker.write_text("#!/bin/sh\nsleep 60\n")
    blocker.chmod(0o755)
    with opened(tmp_path / "home") as home:
        add(home, "Herons nest in the pond.")
        git("config", "core.sshCommand", blocker, cwd=home.vault.path)
        git("remote", "add", "origin", "ssh://host.invalid/vault.git", cwd=home.vault.path)
        until = time.monotonic() + 0.5
        with pytest.raises(RemoteFailed, match="stopping"):
            vaultcare.sync(home, stop=lambda: time.monotonic() > until)
        assert time.monotonic() - until < 30


# a merge that is cut off


class Killed(BaseException):
    """The process ends here."""


def test_a_merge_that_is_cut_off_is_settled_at_the_next_start(tmp_path, bare):
    """After the commit it stands; before it, whatever was laid out is put back and the next sync does it."""
    armed = [False]

    def fault(point):
        if armed[0] and point == "vault.merged":
            raise Killed

    with opened(tmp_path / "one") as one:
        vaultcare.connect(one, str(bare))
        a = add(one, "Herons nest in the pond.")
        vaultcare.sync(one)
    with opened(tmp_path / "other", files=Files(fault)) as other:
        add(other, "Pelicans fish at dawn.")
        git("remote", "add", "origin", bare, cwd=other.vault.path)
        git("fetch", "-q", "origin", cwd=other.vault.path)
        armed[0] = True
        with pytest.raises(Killed):
            other.vault.merge(git("rev-parse", "origin/main", cwd=other.vault.path), "origin/main", foreign=True)
        assert (other.vault.path / ".git" / "memoryd.merge").exists()
    with opened(tmp_path / "other") as other:
        assert not (other.vault.path / ".git" / "memoryd.merge").exists()
        assert found(other, "herons") == {a["id"]}
        assert vaultcare.sync(other)["sent"] == 2


@pytest.mark.parametrize("state", ["merging", "laid out", "locked"])
def test_a_git_that_dies_in_the_middle_of_a_merge_is_undone(tmp_path, bare, state):
    with opened(tmp_path / "one") as one:
        vaultcare.connect(one, str(bare))
        a = add(one, "Herons nest in the pond.")
        vaultcare.sync(one)
    with opened(tmp_path / "other") as other:
        b = add(other, "Pelicans fish at dawn.")
        root = other.vault.path
        git("remote", "add", "origin", bare, cwd=root)
        git("fetch", "-q", "origin", cwd=root)
        theirs = git("rev-parse", "origin/main", cwd=root)
        before = whole(other)
        if state == "merging":
            git("merge", "-q", "--no-commit", "--allow-unrelated-histories", "origin/main", cwd=root)
        else:
            place = root / a["path"]
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(
                subprocess.run(
                    ["git", "show", f"{theirs}:{a['path']}"], cwd=root, capture_output=True, check=True
                ).stdout
            )
            git("add", a["path"], cwd=root)
        dead = subprocess.Popen(["true"])
        dead.wait()
        mark = {"theirs": theirs, "pid": dead.pid, "started": time.time() - 1}
        (root / ".git" / "memoryd.merge").write_text(json.dumps(mark))
        if state == "locked":
            (root / ".git" / "index.lock").touch()
    with opened(tmp_path / "other") as other:
        assert whole(other) == before
        assert not (root / ".git" / "memoryd.merge").exists() and not (root / ".git" / "index.lock").exists()
        assert found(other, "pelicans") == {b["id"]}
        assert vaultcare.sync(other)["received"] == 1


# status


def test_status_tells_how_the_vault_stands(homes):
    a = add(homes.one, "Herons nest in the pond.")
    homes.connect()
    add(homes.one, "Bitterns boom.")
    one = vaultcare.status(homes.one, HERE)
    assert (one["branch"], one["commit"], one["ready"]) == ("main", homes.one.vault.head(), True)
    assert one["remote"] == {"name": "origin", "url": str(homes.bare), "branch": "main", "ahead": 1, "behind": 0}
    vaultcare.sync(homes.one)
    root = homes.other.vault.path
    git("fetch", "-q", cwd=root)
    add(homes.other, "Storks clatter.")
    hook(root / ".git", "pre-commit", "exit 0\n")
    hook(root / ".git", "pre-push.sample", "exit 0\n")
    (root / a["path"]).write_text((root / a["path"]).read_text().replace("pond", "reeds"))
    (root / "global" / "fact" / "dropped.md").write_text("Egrets wade.\n")
    (root / "staged note.md").write_text("note")
    git("add", "staged note.md", cwd=root)
    (root / ".obsidian").mkdir()
    (root / ".obsidian" / "app.json").write_text("{}")
    reconcile_vault(homes.other)
    other = vaultcare.status(homes.other, HERE)
    assert (other["remote"]["ahead"], other["remote"]["behind"]) == (1, 1)
    assert {one["path"]: one["state"] for one in other["edited"]} == {
        a["path"]: "modified",
        "global/fact/dropped.md": "new",
        "staged note.md": "added, staged",
    }
    assert (other["hidden"], other["hooks"], other["conflicts"], other["locks"]) == (1, ["pre-commit"], [], [])
    (fault,) = other["unreadable"]
    assert (fault["path"], fault["line"]) == ("global/fact/dropped.md", 1)


def test_the_lines_that_status_proposes_make_a_memory(homes):
    home = homes.one
    add(home, "Egrets wade.", kind="note")
    texts = {
        "global/lesson/plain.md": "Herons nest.\n",
        "global/fact/partly.md": '---\ntags: [birds]\ntype: decision\ntitle: "Pelicans"\n---\n\nPelicans fish.\n',
        "p-app-0011aabb/fact/crlf.md": "---\r\nkey: k\r\n---\r\n\r\nStorks clatter.\r\n",
    }
    for name, text in texts.items():
        place = home.vault.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode())
    (home.vault.path / "global" / "fact" / "broken.md").write_text("---\na: [\n---\nx\n")
    reconcile_vault(home)
    faults = {one["path"]: one for one in vaultcare.status(home, HERE)["unreadable"]}
    assert set(faults) == {*texts, "global/fact/broken.md"}
    assert "add" not in faults["global/fact/broken.md"] and faults["global/fact/broken.md"]["line"] == 3
    for name, text in texts.items():
        lines = faults[name]["add"]
        first, rest = ("", text) if not text.startswith("---") else text.split("\n", 1)
        (home.vault.path / name).write_bytes("\n".join([*([first] if first else []), *lines, rest]).encode())
    reconcile_vault(home)
    assert [one["path"] for one in vaultcare.status(home, HERE)["unreadable"]] == ["global/fact/broken.md"]
    again = gateway.add(home, HERE, content="Herons nest.", type="lesson", scope="global")
    assert (again["outcome"], again["edited"]) == ("exists", False), "the id is the one of its words"


@pytest.mark.parametrize("state", ["merge", "detached", "unborn"])
def test_status_of_unusual_states(homes, state):
    root = homes.one.vault.path
    if state != "unborn":
        a = add(homes.one, "Herons nest in the pond.")
        git("switch", "-q", "-c", "side", cwd=root)
        supersede(homes.one, a["id"], "Herons nest in the reeds.")
        git("switch", "-q", "main", cwd=root)
        reconcile_vault(homes.one)
        supersede(homes.one, a["id"], "Herons nest in the trees.")
    if state == "merge":
        with pytest.raises(subprocess.CalledProcessError):
            git("merge", "-q", "side", cwd=root)
    if state == "detached":
        git("checkout", "-q", "--detach", cwd=root)
    reconcile_vault(homes.one)
    shown = vaultcare.status(homes.one, HERE)
    assert shown["ready"] == (state == "unborn")
    assert (shown["branch"] is None, shown["under_way"]) == (state == "detached", "merge" if state == "merge" else None)
    assert shown["conflicts"] == ([a["path"]] if state == "merge" else [])
    if state == "merge":
        assert [(one["path"], "conflict" in one["problem"]) for one in shown["unreadable"]] == [(a["path"], True)]
    if state == "unborn":
        assert (shown["commit"], shown["remote"]) == (None, None)


@pytest.mark.parametrize("kind", ["worktree", "submodule"])
def test_a_vault_that_is_a_work_tree_or_a_submodule_is_synced_too(tmp_path, bare, kind):
    with opened(tmp_path / "one") as one:
        vaultcare.connect(one, str(bare))
        a = add(one, "Herons nest in the pond.")
        vaultcare.sync(one)
    if kind == "worktree":
        git("clone", "-q", bare, "main", cwd=tmp_path)
        git("worktree", "add", "-q", "-b", "tree", tmp_path / "vault", "origin/main", cwd=tmp_path / "main")
        place = tmp_path / "vault"
    else:
        git("init", "-q", "app", cwd=tmp_path)
        git("-c", "protocol.file.allow=always", "submodule", "add", "-q", bare, "vault", cwd=tmp_path / "app")
        place = tmp_path / "app" / "vault"
        git("checkout", "-q", "--detach", cwd=place)
    configure(tmp_path / "other", vault={"path": str(place)})
    with opened(tmp_path / "other") as other:
        if kind == "submodule":
            with pytest.raises(VaultBusy, match="detached"):
                add(other, "Pelicans fish at dawn.")
            git("checkout", "-q", "main", cwd=place)
        assert found(other, "herons") == {a["id"]}
        b = add(other, "Pelicans fish at dawn.")
        assert vaultcare.sync(other)["sent"] == 1
        assert git("status", "--porcelain", cwd=place) == ""
    with opened(tmp_path / "one") as one:
        vaultcare.sync(one)
        assert found(one, "pelicans") == {b["id"]}
