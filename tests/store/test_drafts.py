"""Frames of a growing group: in order, and never more waiting than the bound."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

from memoryd.store import pack as packs
from memoryd.store.drafts import BEHIND_MOST, Draft, Frames
from memoryd.store.pack import PackWriter
from tests.store import vectors


def draft_of(*items: bytes) -> Draft:
    draft = Draft(packs.CHUNK)
    for item in items:
        draft.add(item, hashlib.sha256(item).digest())
    return draft


def test_a_draft_takes_items_up_to_the_solid_size_and_any_first_one():
    assert Draft(packs.CHUNK).has_room(10 * packs.SOLID_BYTES)
    draft = draft_of(b"x" * (packs.SOLID_BYTES - 10))
    assert draft.has_room(10)
    assert not draft.has_room(11)


def test_a_draft_tells_where_its_items_lie():
    items = [b"one", b"", b"three"]
    draft = draft_of(*items)
    draft.encode(0)
    assert list(draft.placed()) == [
        (hashlib.sha256(item).digest(), at, len(item)) for item, at in zip(items, (0, 3, 3), strict=True)
    ]


def test_frames_stay_in_order_whoever_encodes_them():
    with ThreadPoolExecutor(2) as encoder:
        frames = Frames(encoder)
        drafts = [draft_of(b"%d" % n * (5000 if n % 2 else 5)) for n in range(30)]
        for draft in drafts[:-1]:
            frames.put(draft, 0)
        frames.put_last(draft_of(), 0)  # an empty draft is no frame
        frames.put_last(drafts[-1], 0)
        writer = PackWriter(vectors.PACK)
        placed = list(frames.drain(writer))
    assert [draft for draft, _offset in placed] == drafts
    assert [offset for _draft, offset in placed] == sorted(offset for _draft, offset in placed)
    assert writer.frames == 30


def test_a_group_that_is_faster_than_its_encoders_waits_for_them():
    """Raw bytes that wait to be encoded stay bounded."""
    gate = threading.Event()
    with ThreadPoolExecutor(1) as encoder:
        encoder.submit(gate.wait)
        frames = Frames(encoder)
        for n in range(BEHIND_MOST):
            frames.put(draft_of(b"%d" % n), 0)
        done = threading.Event()
        late = threading.Thread(target=lambda: (frames.put(draft_of(b"one too many"), 0), done.set()))
        late.start()
        waited = not done.wait(0.2)
        gate.set()
        late.join()
    assert waited
    assert done.is_set()
