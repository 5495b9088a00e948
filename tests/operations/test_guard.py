"""Does a secret stay out of everything that memoryd writes and says, unless a person lets it in?"""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path

import pytest

from memoryd.errors import BlankContent, NotText, SecretFound
from memoryd.operations import artifacts, gateway, guard, lifecycle
from memoryd.operations.entries import get
from memoryd.operations.home import Home
from tests.extract.credentials import SHAPED, Maker
from tests.operations.conftest import commits, git, opened, settle
from tests.templates import written

KINDS = sorted(SHAPED)


def add(home, caller, content="Deployments visit staging first.", **other):
    return gateway.add(home, caller, content=content, type="fact", scope="global", **other)


def below(root: Path) -> dict[Path, bytes]:
    return {path: written(path) for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


def holders(root: Path, one: str) -> list[str]:
    """Files below a folder that hold a credential, or a long piece of one of its lines, plain or in git's objects."""
    needles = [line[at : at + 12].encode() for line in one.splitlines() if "PRIVATE KEY" not in line for at in (0, 4)]
    needles = [needle for needle in needles if len(needle) == 12]
    found = [str(path) for path, data in below(root).items() if any(needle in data for needle in needles)]
    vault = root / "vault"
    if (vault / ".git").exists():
        names = subprocess.run(
            ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=vault, capture_output=True, check=True
        ).stdout
        found += ["git"] if any(needle in names for needle in needles) else []
    return found


def told(caught) -> str:
    """All that a refusal says."""
    error = caught.value
    return (
        json.dumps(error.to_dict()) + repr(error) + repr(error.args) + repr(error.__cause__) + repr(error.__context__)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_refused_add_writes_nothing_and_never_says_the_secret(root, nobody, kind, caplog):
    """Vault, git, state, catalog, packs, log: the secret is in no file of the home, also not after a restart."""
    caplog.set_level(logging.DEBUG)
    one = Maker(4).of(kind)
    with opened(root) as home:
        add(home, nobody)
        settle(home)
        before, head = commits(home), home.vault.head()
        packs = sorted((root / "store" / "packs").rglob("*.pack"))
        with pytest.raises(SecretFound) as caught:
            add(home, nobody, f"# Access\n\nIt is\n{one}\nand nothing else.")
        assert (commits(home), home.vault.head()) == (before, head)
        assert not git("status", "--porcelain", cwd=home.vault.path)
        settle(home)
        assert sorted((root / "store" / "packs").rglob("*.pack")) == packs, (
            "nothing was packed, where it would be squeezed"
        )
        assert len(home.memories.listed(("global",), ("in_force",), (), 10, 0)) == 1
    with opened(root) as home:
        settle(home)
    place = caught.value.details["findings"][0]
    assert (place["parameter"], place["kind"], place["line"]) == ("content", kind, 4)
    assert caught.value.code == "secret-found" and caught.value.details["count"] == 1
    said = told(caught) + caplog.text
    assert not any(line[at : at + 8] in said for line in one.splitlines() if "PRIVATE KEY" not in line for at in (0, 4))
    assert holders(root, one) == []


@pytest.mark.parametrize("parameter", ["title", "key", "tags"])
def test_every_word_of_an_add_is_looked_at(home, nobody, parameter):
    one = Maker(4).of("stripe-key")
    with pytest.raises(SecretFound) as caught:
        add(home, nobody, **{parameter: ["a", one] if parameter == "tags" else one})
    (place,) = caught.value.details["findings"]
    assert place["parameter"] == ("tags.1" if parameter == "tags" else parameter)
    assert place["columns"] == [1, len(one)] and commits(home) == 0


def test_a_supersede_and_an_archive_are_looked_at_before_their_preview(home, root, nobody):
    identity = add(home, nobody)["id"]
    one = Maker(4).of("github-token")
    with pytest.raises(SecretFound) as caught:
        lifecycle.supersede(home, nobody, id=identity, content=f"Use {one}.")
    assert caught.value.details["findings"][0]["parameter"] == "content"
    with pytest.raises(SecretFound) as caught:
        lifecycle.archive(home, nobody, id=identity, reason=f"was {one}")
    assert caught.value.details["findings"][0]["parameter"] == "reason"
    assert commits(home) == 1 and holders(root, one) == []


def test_the_token_of_a_person_does_not_carry_a_secret_past_the_guard(home, nobody):
    identity, content = add(home, nobody)["id"], f"Use {Maker(4).of('npm-token')}."
    preview = lifecycle.supersede(home, nobody, id=identity, content=content, allow_secret=True)
    with pytest.raises(SecretFound):
        lifecycle.supersede(home, nobody, id=identity, content=content, confirm=preview["confirm"])
    done = lifecycle.supersede(
        home, nobody, id=identity, content=content, confirm=preview["confirm"], allow_secret=True
    )
    assert done["outcome"] == "superseded"


def test_a_person_lets_it_in_and_it_is_stored_as_given(home, root, nobody):
    one = Maker(4).of("private-key")
    added = add(home, nobody, f"The test key:\n\n{one}", allow_secret=True)
    assert added["outcome"] == "added"
    assert one in (home.vault.path / added["path"]).read_text()
    assert {"git", str(home.vault.path / added["path"])} <= set(holders(root, one)), "what the other tests look with"


def test_a_preview_shows_no_secret_of_the_memory_that_it_replaces(home, nobody):
    one = Maker(4).of("private-key")
    identity = add(home, nobody, f"The key:\n{one}\nis for tests.", allow_secret=True)["id"]
    preview = lifecycle.supersede(home, nobody, id=identity, content="The key:\nlies in the safe.")
    assert "-[redacted: private-key]" in preview["diff"]
    shown = json.dumps(preview)
    assert not any(line in shown for line in one.splitlines()[1:-1])


def test_many_findings_are_counted_and_some_listed():
    made = [Maker(seed).of("github-token") for seed in range(guard.LISTED + 5)]
    with pytest.raises(SecretFound, match=f"and {len(made) - 1} more") as caught:
        guard.refuse_secrets(allowed=False, content="\n".join(made), title=None)
    assert caught.value.details["count"] == len(made)
    assert [one["line"] for one in caught.value.details["findings"]] == list(range(1, guard.LISTED + 1))
    guard.refuse_secrets(allowed=True, content="\n".join(made))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252", "broken"])
def test_an_artifact_is_redacted_on_request_and_else_kept_as_given(root, nobody, encoding):
    one = Maker(4).of("slack-token")
    text = f'höst: a\r\nlog: {one} ok\r\npassword = "hunter2"\r\nlast'
    data = (
        text.encode("utf-8").replace(b"last", b"\xffl\xc3\xa4\xc3\xb6st")
        if encoding == "broken"
        else text.encode(encoding)
    )
    with opened(root) as home:
        kept = artifacts.add(home, nobody, data=data, name="as-given.log", scope="global")
        assert home.store.read(kept["address"]) == data and "redacted" not in kept
        file = home.root.parent / "build.log"
        file.write_bytes(data)
        done = artifacts.add_file(home, nobody, path=str(file), scope="global", redact=True)
        assert done["redacted"] == {"count": 2, "kinds": {"slack-token": 1, "assigned-secret": 1}}
        stored = home.store.read(done["address"])
        marks = [(one, "[redacted: slack-token]"), ("hunter2", "[redacted: assigned-secret]")]
        raw = "utf-8" if encoding in ("broken", "utf-8-sig") else "utf-16-le" if encoding == "utf-16" else encoding
        for secret, mark in marks:
            data = data.replace(secret.encode(raw), mark.encode(raw))
        assert stored == data, "every other byte is as it was"


def test_a_redacted_text_leaves_nothing_of_the_secret(root, nobody):
    one = Maker(4).of("anthropic-key")
    with opened(root) as home:
        done = artifacts.add_given(home, nobody, text=f"call with {one}\n", scope="global", redact=True)
        settle(home)
        assert get(home, nobody, source=done["source"])["content"] == "call with [redacted: anthropic-key]\n"
        again = artifacts.add_given(home, nobody, text=f"call with {one}\n", scope="global", redact=True)
        assert (again["outcome"], again["id"]) == ("exists", done["id"])
    assert holders(root, one) == []


def test_nothing_to_redact_changes_no_byte(home, nobody):
    done = artifacts.add_given(home, nobody, text="plain\r\n", scope="global", redact=True)
    assert done["redacted"] == {"count": 0, "kinds": {}}
    assert home.store.read(done["address"]) == b"plain\r\n"


def test_what_is_no_text_is_refused_when_it_should_be_redacted(home: Home, nobody, tmp_path):
    file = tmp_path / "image.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    with pytest.raises(NotText) as caught:
        artifacts.add_file(home, nobody, path=str(file), scope="global", redact=True)
    assert caught.value.code == "not-text"
    assert artifacts.add_file(home, nobody, path=str(file), scope="global")["outcome"] == "added"
    with pytest.raises(BlankContent):
        artifacts.add_given(home, nobody, text=" ", scope="global", redact=True)
