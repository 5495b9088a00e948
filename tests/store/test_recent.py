"""What was lately asked for is not asked for again, within bounds, and never after packs were replaced."""

from __future__ import annotations

from memoryd.store.chunkindex import Place
from memoryd.store.recent import Recent


def place(number: int) -> Place:
    return Place(bytes(16), number, 0, 1, 1, True)


def test_known_places_are_not_asked_for_again_and_unknown_ones_are():
    asked: list[list[bytes]] = []

    def ask(addresses: list[bytes]) -> dict[bytes, list[Place]]:
        asked.append(addresses)
        return {address: [place(1)] for address in addresses if address != b"absent"}

    recent = Recent()
    assert recent.ask([b"a", b"absent"], ask) == {b"a": [place(1)]}
    assert recent.ask([b"a", b"absent", b"b"], ask) == {b"a": [place(1)], b"b": [place(1)]}
    assert recent.ask([b"a", b"b"], ask) == {b"a": [place(1)], b"b": [place(1)]}
    assert asked == [[b"a", b"absent"], [b"absent", b"b"]]


def test_no_more_than_the_limit_is_kept_and_the_newest_stay():
    recent = Recent(limit=80)
    for number in range(1000):
        recent.note([(number.to_bytes(4), place(number))])
    kept = recent.ask([number.to_bytes(4) for number in range(1000)], lambda _wanted: {})
    assert 60 <= len(kept) <= 80
    assert (999).to_bytes(4) in kept


def test_nothing_is_kept_after_clear():
    recent = Recent()
    recent.note([(b"a", place(1))])
    recent.clear()
    assert recent.ask([b"a"], lambda _wanted: {}) == {}
