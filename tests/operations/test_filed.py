"""Do findings show only memories in force that the caller may see, and do they vanish by themselves?"""

from __future__ import annotations

import pytest

from memoryd.errors import NotFound
from memoryd.operations import filed, gateway
from memoryd.operations.reconcile import reconcile_vault
from tests.operations.conftest import git, opened

GLOBAL = ("global",)


def add(home, caller, content, scope="global"):
    return gateway.add(home, caller, content=content, type="fact", scope=scope)["id"]


@pytest.fixture
def pair(home, nobody):
    return add(home, nobody, "The port of the proxy is 8080."), add(home, nobody, "The port of the proxy is 9090.")


def test_a_finding_is_filed_once_and_names_both_memories(home, pair):
    old, new = pair
    assert filed.file(home, "conflict", new, old, 0.91, "one number differs")
    assert not filed.file(home, "conflict", old, new, 0.4, "again")
    (found,) = filed.open_findings(home, GLOBAL)
    assert (found.memory.fields.id, found.other.fields.id) == (new, old)
    assert (found.finding.score, found.finding.reason) == (0.91, "one number differs")
    assert filed.open_findings(home, GLOBAL, "similar") == []
    assert len(filed.open_findings(home, None, "conflict")) == 1


def test_only_pairs_of_a_known_kind_are_filed(home, pair):
    with pytest.raises(ValueError, match="no finding"):
        filed.file(home, "odd", *pair, None, "x")
    with pytest.raises(ValueError, match="no finding"):
        filed.file(home, "similar", pair[0], pair[0], None, "x")
    filed.file(home, "similar", *pair, None, "x" * 5000)
    assert len(filed.open_findings(home, GLOBAL)[0].finding.reason) == filed.REASON_MOST


def test_a_finding_vanishes_with_a_memory_and_comes_back_with_it(home, nobody, pair):
    old, new = pair
    filed.file(home, "conflict", new, old, None, "one number differs")
    token = gateway.archive(home, nobody, id=old, reason="gone")["confirm"]
    gateway.archive(home, nobody, id=old, reason="gone", confirm=token)
    assert filed.open_findings(home, GLOBAL) == []
    git("revert", "--no-edit", "HEAD", cwd=home.vault.path)
    reconcile_vault(home)
    assert len(filed.open_findings(home, GLOBAL)) == 1


def test_a_settled_pair_is_not_shown_and_not_filed_again(root, nobody):
    with opened(root) as home:
        old, new = add(home, nobody, "a" * 30), add(home, nobody, "b" * 30)
        filed.file(home, "similar", new, old, 0.9, "near")
        assert filed.settle(home, GLOBAL, "similar", old, new)
        assert not filed.settle(home, GLOBAL, "similar", old, new)
    with opened(root) as home:
        assert not filed.file(home, "similar", new, old, 0.9, "near")
        assert filed.open_findings(home, GLOBAL) == []


def test_findings_of_other_scopes_are_neither_shown_nor_settled(home, nobody, project):
    mine = project("mine")
    common = add(home, nobody, "The queue is drained at night.")
    hidden = add(home, mine, "The queue is drained at noon.", scope=None)
    filed.file(home, "conflict", hidden, common, None, "night and noon")
    assert filed.open_findings(home, GLOBAL) == []
    with pytest.raises(NotFound) as outside:
        filed.settle(home, GLOBAL, "conflict", hidden, common)
    with pytest.raises(NotFound) as missing:
        filed.settle(home, GLOBAL, "conflict", "0" * 64, common)
    assert str(outside.value).replace(hidden, "X") == str(missing.value).replace("0" * 64, "X")
    assert len(filed.open_findings(home, None)) == 1
