"""What came without a comparison is compared later, and what is found is filed for review."""

from __future__ import annotations

from memoryd.operations import filed, gateway
from memoryd.operations.home import Caller
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.secondlook import look_again
from tests.operations.conftest import opened, settle

HERE = Caller()


def add(home, content):
    return gateway.add(home, HERE, content=content, type="fact", scope="global")


def looked(home):
    settle(home)
    while look_again(home):
        pass
    return {(one.finding.kind, one.memory.fields.id, one.other.fields.id) for one in filed.open_findings(home, None)}


def test_a_conflict_that_nobody_settled_is_filed_the_newer_first(home):
    old, new, other = (
        add(home, "The retry limit is 5."),
        add(home, "The retry limit is 7."),
        add(home, "Lunch is at noon."),
    )
    assert looked(home) == {("conflict", new["id"], old["id"])}
    assert other["outcome"] == "added"
    assert looked(home) == {("conflict", new["id"], old["id"])}, "once"


def test_a_settled_conflict_is_gone_and_stays_gone(home):
    old, new = add(home, "The retry limit is 5."), add(home, "The retry limit is 7.")
    gateway.supersede(home, HERE, **new["conflicts"][0]["proposal"]["arguments"])
    assert looked(home) == set()
    assert home.memories.get(old["id"]).fields.status == "superseded"


def test_a_file_that_was_dropped_in_is_compared_with_the_direction_of_its_times(home):
    new = add(home, "The retry limit is 5.")
    data = (home.vault.path / new["path"].removeprefix("vault/")).read_text()
    older = data.replace(new["id"], "a" * 64).replace("limit is 5.", "limit is 9.")
    created = home.memories.get(new["id"]).fields.created
    (home.vault.path / "global" / "fact" / "dropped.md").write_text(older.replace(created, "2020-01-01T00:00:00Z"))
    reconcile_vault(home)
    assert looked(home) == {("conflict", new["id"], "a" * 64)}


def test_what_was_added_without_the_model_is_unchecked_and_looked_at_when_it_is_back(root):
    long = "Incident report. " + " ".join(f"At minute {n} the heron queue had {n * 7} jobs." for n in range(12))
    with opened(root) as home:
        first = add(home, long)
        home.host.close()
        answer = add(home, long.replace("Incident report.", "Report of the incident, reviewed."))
        assert (answer["outcome"], answer["similarity"]) == ("conflicts", "unchecked")
    with opened(root) as home:
        assert looked(home) == {("conflict", answer["id"], first["id"])}


def test_it_goes_on_where_it_was_stopped(home):
    for number in range(6):
        add(home, f"The limit of queue number {number} in hall {number} is unknown.")
    settle(home)
    calls = []
    assert not look_again(home, lambda: calls.append(1) or len(calls) > 2)
    mark = int(home.catalog.meta("compared"))
    looked(home)
    assert 0 < mark < int(home.catalog.meta("compared")) == home.documents.last_seq()
