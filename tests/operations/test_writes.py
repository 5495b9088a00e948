"""Does a commit that stands stay told as one, whatever fails after it, and is a killed call answered as if it had lived?"""

from __future__ import annotations

import errno
import sqlite3

import pytest

from memoryd.errors import DiskFull, VaultError, VaultFileInvalid
from memoryd.files import Files
from memoryd.operations import gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.health import status
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import commits, git, opened, settle

HERE = Caller()


class Killed(BaseException):
    """The process ends here."""


class Trap(Files):
    """Files whose named step does something once it is armed."""

    def __init__(self, point):
        self.armed = None
        super().__init__(lambda name: self.spring() if name == point else None)

    def spring(self):
        armed, self.armed = self.armed, None
        if armed is not None:
            armed()


def read_only(home, on):
    """Let state.db refuse every write, as a full or failing disk would."""
    home.state._db._writer.execute(f"PRAGMA query_only={'ON' if on else 'OFF'}")


def add(home, content="Port 8080.", **other):
    return gateway.add(home, HERE, content=content, type="fact", scope="global", **other)


@pytest.fixture
def trap():
    return Trap("vault.committed")


def test_a_state_that_cannot_be_written_after_the_commit_spoils_no_add(root, trap):
    with opened(root, files=trap) as home:
        trap.armed = lambda: read_only(home, True)
        first = add(home)
        assert (first["outcome"], commits(home)) == ("added", 1)
        assert any("what was committed is stored" in notice for notice in status(home, HERE)["notices"])
        assert recall(home, HERE, task="ports")["index"]["generation"] == 1, "a brief goes without its mark"
        assert len(home.state.intents.all()) == 1, "left to be settled"
        assert add(home)["id"] == first["id"]
        read_only(home, False)
        reconcile_vault(home)
        assert home.state.intents.all() == []
        assert reading.get(home, HERE, id=first["id"])["content"].endswith("Port 8080.")


@pytest.mark.parametrize("call", ["supersede", "archive"])
def test_nor_a_lifecycle_change_and_the_token_gives_the_first_answer(root, trap, call):
    said = {"content": "Port 9090."} if call == "supersede" else {"reason": "The service is gone."}
    with opened(root, files=trap) as home:
        given = {"id": add(home)["id"], **said}
        change = getattr(gateway, call)
        token = change(home, HERE, **given)["confirm"]
        trap.armed = lambda: read_only(home, True)
        first = change(home, HERE, **given, confirm=token)
        assert first["commit"] == git("rev-parse", "HEAD", cwd=home.vault.path)
        assert change(home, HERE, **given, confirm=token) == first, "although nothing could be kept"
        read_only(home, False)
        reconcile_vault(home)
        assert change(home, HERE, **given, confirm=token) == first
        assert commits(home) == 2


@pytest.mark.parametrize("call", ["supersede", "archive"])
def test_a_kill_between_commit_and_answer_does_not_lose_the_answer(root, trap, call):
    said = {"content": "Port 9090."} if call == "supersede" else {"reason": "The service is gone."}
    change = getattr(gateway, call)

    def kill():
        raise Killed

    with opened(root, files=trap) as home:
        given = {"id": add(home)["id"], **said}
        token = change(home, HERE, **given)["confirm"]
        trap.armed = kill
        with pytest.raises(Killed):
            change(home, HERE, **given, confirm=token)
    with opened(root) as home:
        now = home.clock()
        home.clock = lambda: now + 7200
        answer = change(home, HERE, **given, confirm=token)
        assert answer["outcome"] == ("superseded" if call == "supersede" else "archived")
        assert answer["commit"] == git("rev-parse", "HEAD", cwd=home.vault.path)
        shown = reading.get(home, HERE, id=answer["id"])
        assert shown["status"] == ("in_force" if call == "supersede" else "archived")
        assert answer["path"] in shown["source"]
        assert change(home, HERE, **given, confirm=token) == answer
        assert commits(home) == 2


@pytest.mark.parametrize("how", ["hook", "attributes"])
def test_h36_a_kill_after_a_commit_whose_bytes_git_changed_undoes_nothing(root, trap, how):
    """H36: HEAD holds the supersede in other bytes than were written; settling must not put the old state back."""

    def kill():
        raise Killed

    with opened(root, files=trap) as home:
        a = add(home)
        if how == "hook":
            hook = home.vault.path / ".git" / "hooks" / "pre-commit"
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(
                "#!/bin/sh\nfor f in $(git diff --cached --name-only); do\n"
                "git update-index --cacheinfo 100644,$( (cat $f; echo) | git hash-object -w --stdin),$f\ndone\n"
            )
            hook.chmod(0o755)
        else:
            (home.vault.path / ".gitattributes").write_text("*.md text eol=lf\n")
            file = home.vault.path / a["path"]
            file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
        given = {"id": a["id"], "content": "Port 9090."}
        token = gateway.supersede(home, HERE, **given)["confirm"]
        trap.armed = kill
        with pytest.raises(Killed):
            gateway.supersede(home, HERE, **given, confirm=token)
    with opened(root) as home:
        settle(home)
        assert home.state.intents.all() == []
        assert home.memories.get(a["id"]).fields.status == "superseded"
        assert home.memories.counts(None) == {"in_force": 1, "superseded": 1}
        assert gateway.supersede(home, HERE, **given, confirm=token)["outcome"] == "superseded"


@pytest.mark.parametrize("change", ["echo broken > ", "printf 'no frontmatter' > "])
def test_a_hook_that_spoils_a_file_turns_no_stored_memory_into_an_error(home, change):
    hook = home.vault.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nfor f in $(git diff --cached --name-only); do {change} $f; git add $f; done\n")
    hook.chmod(0o755)
    answer = add(home)
    assert answer["outcome"] == "added"
    assert answer["path"] in answer["notice"]
    assert commits(home) == 1
    faulty = status(home, HERE)["vault"]["faulty"]
    assert [one["path"] for one in faulty] == [answer["path"]]


@pytest.mark.parametrize("noticed", [True, False])
@pytest.mark.parametrize("by", ["hook", "hand"])
def test_adding_words_again_whose_file_was_spoilt_names_file_line_and_remedy(home, by, noticed):
    garbage = "---\nid: x\nid: y\n---\n"
    hook = home.vault.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    if by == "hook":
        hook.write_text(
            f"#!/bin/sh\nfor f in $(git diff --cached --name-only); do printf -- '{garbage}' > $f; git add $f; done\n"
        )
        hook.chmod(0o755)
    answer = add(home)
    file = home.vault.path / answer["path"]
    if by == "hand":
        file.write_text(garbage)
    hook.unlink(missing_ok=True)
    if noticed:
        reconcile_vault(home)
        settle(home)
    with pytest.raises(VaultFileInvalid) as refused:
        add(home)
    error = refused.value
    assert answer["path"] in error.message and "Line 3" in error.message
    assert f"line 3 of {answer['path']}" in error.next_step and "git rm" in error.next_step
    assert (error.details["path"], error.details["line"]) == (answer["path"], 3)
    assert file.read_text() == garbage
    assert gateway.add(home, HERE, content="Unrelated.", type="fact", scope="global")["outcome"] == "added"
    git("rm", "-q", "-f", answer["path"], cwd=home.vault.path)
    assert add(home)["outcome"] == "added"


def test_another_memory_in_the_place_of_a_new_one_is_named(home):
    answer = add(home)
    file = home.vault.path / answer["path"]
    file.write_text(file.read_text().replace(answer["id"], "0" * 64).replace("Port 8080.", "Quite another matter."))
    reconcile_vault(home)
    with pytest.raises(VaultError, match="holds another one"):
        add(home)


@pytest.mark.parametrize("point", ["vault.write", "pack.write"])
def test_a_memory_finds_room_on_a_full_disk_once(root, point):
    """H38: the space that the store holds back is for small writes; without it the disk is called full."""
    files = Files(lambda _point: None)
    reserve = root / "store" / "reserve"
    with opened(root, files=files) as home:
        caller = Caller()
        gateway.add(home, caller, content="Before.", type="fact", scope="global")

        def full(name):
            if name == point and reserve.exists():
                raise OSError(errno.ENOSPC, "No space left on device")

        files.fault = full
        added = gateway.add(home, caller, content="On a full disk.", type="fact", scope="global")
        assert added["outcome"] == "added"
        assert home.memories.get(added["id"]) is not None, "it is in the packs as well"

        def really_full(name):
            if name == "vault.write":
                raise OSError(errno.ENOSPC, "No space left on device")

        files.fault = really_full
        with pytest.raises(DiskFull):
            gateway.add(home, caller, content="No room at all.", type="fact", scope="global")
        assert home.state.intents.all() == []
        files.fault = lambda _point: None
        gateway.add(home, caller, content="Room again.", type="fact", scope="global")
        assert reserve.exists(), "held back again"


def test_case_18_an_add_does_as_much_work_in_a_large_store_as_in_a_small_one(root, monkeypatch):
    """case 18, untimed: what SQLite executes for an add (store, catalog, state, caches) does not grow with the store."""
    steps = [0]

    def counted(*arguments, **options):
        connection = connect(*arguments, **options)
        connection.set_progress_handler(lambda: steps.__setitem__(0, steps[0] + 1), 20)
        return connection

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", counted)
    with opened(root) as home:
        gateway.add(home, HERE, content="The first one opens every file.", type="fact", scope="global")
        settle(home)
        few = work_of_adds(home, steps, "small")
        for part in range(4):
            texts = (
                Seen("docs", b"%d-%d.bin" % (part, number), "global", "document", b"\0%d-%d" % (part, number))
                for number in range(1000)
            )
            store_documents(home, texts)
        settle(home)
        many = work_of_adds(home, steps, "large")
    assert few > 100
    assert many <= 1.5 * few


def work_of_adds(home, steps, word):
    """Steps of five adds, until they are findable."""
    before = steps[0]
    for number in range(5):
        gateway.add(home, HERE, content=f"In a {word} store the rule {number} holds.", type="fact", scope="global")
        settle(home)
    return steps[0] - before
