"""Is a kept answer handed out exactly as long as all that it was made from is the same?"""

from __future__ import annotations

import threading

from memoryd.records import Filter
from memoryd.search.kept import Kept, same


def test_an_answer_is_handed_out_under_the_same_key_and_stamp_only():
    kept, mark = Kept(), object()
    answer = {"memories": [{"content": "a \ud800 b", "lines": [1, 2]}], "more": None}
    kept.put(("q", Filter(("global",))), (mark, 3), answer)
    found = kept.get(("q", Filter(("global",))), (mark, 3))
    assert found == answer
    found["memories"].clear()
    assert kept.get(("q", Filter(("global",))), (mark, 3)) == answer, "what was handed out may be changed"
    assert kept.get(("q", Filter(("global", "p-x-00000000"))), (mark, 3)) is None
    assert kept.get(("Q", Filter(("global",))), (mark, 3)) is None
    assert kept.get(("q", Filter(("global",))), (mark, 4)) is None
    assert kept.get(("q", Filter(("global",))), (mark, 3)) is None, "an answer that no longer held is let go"
    assert (kept.hits, kept.misses, len(kept)) == (2, 4, 0)


def test_stamps_compare_what_is_counted_by_value_and_the_rest_by_identity():
    one, twin = Filter(("a",)), Filter(("a",))
    assert one == twin
    assert same((one, 10**20, "x" * 50), (one, int("1" + "0" * 20), "".join(["x"] * 50)))
    assert not same((one,), (twin,))
    assert not same((one,), (one, 1))
    assert not same((1,), (2,)) and not same((None,), (0,))


def test_it_is_bounded_by_answers_and_by_bytes():
    few = Kept(most=2)
    for key in "abc":
        few.put(key, (), key)
    assert [few.get(key, ()) for key in "abc"] == [None, "b", "c"]
    few.get("b", ())
    few.put("d", (), "d")
    assert [few.get(key, ()) for key in "bcd"] == ["b", None, "d"], "the one that was used last stays"
    small = Kept(most_bytes=300)
    small.put("a", (), "x" * 100)
    small.put("b", (), "y" * 100)
    small.put("a", (), "z" * 100)
    assert (small.get("a", ()), small.get("b", ())) == ("z" * 100, "y" * 100)
    small.put("c", (), "w" * 250)
    assert (small.get("a", ()), small.get("b", ()), small.get("c", ())) == (None, None, "w" * 250)
    small.put("d", (), "v" * 999)
    assert small.get("d", ()) is None and len(small) == 1


def test_many_threads_may_use_it():
    kept, faults = Kept(most=8), []

    def work(own):
        for n in range(300):
            kept.put(n % 12, (own,), [own, n % 12])
            found = kept.get(n % 12, (own,))
            if found not in (None, [own, n % 12]):
                faults.append(found)

    threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults and len(kept) <= 8
