"""Behaviour of memoryd.models.waiting: what goes into the model together, and in which order."""

from __future__ import annotations

from memoryd.models.waiting import BATCH_TEXTS, Reranking, Waiting


def batches(waiting: Waiting, tokens: int) -> list[list[str]]:
    found = []
    while (taken := waiting.take(tokens)) is not None:
        found.append([job.text for job in taken] if isinstance(taken, list) else [taken.query])
    return found


def filled(*texts: str) -> Waiting:
    waiting = Waiting()
    waiting.add(waiting.job(text, query=False) for text in texts)
    return waiting


def test_passages_go_together_as_far_as_the_tokens_do_padding_counted():
    words = "x" * 90  # about 32 tokens
    assert [len(one) for one in batches(filled(*[words] * 7), 100)] == [3, 3, 1]
    assert batches(filled("x", "y", words * 9), 100) == [["x", "y"], [words * 9]]
    assert [len(one) for one in batches(filled(*["x"] * 40), 100_000)] == [BATCH_TEXTS, 40 - BATCH_TEXTS]


def test_characters_beyond_ascii_count_as_tokens():
    assert [len(one) for one in batches(filled(*["日本語" * 10] * 4), 64)] == [2, 2]


def test_one_text_a_forward_where_batches_buy_nothing():
    assert batches(filled("a", "b"), 0) == [["a"], ["b"]]


def test_queries_and_rerankings_go_first_and_alone():
    waiting = filled("p", "q")
    waiting.add([waiting.job("asked", query=True), Reranking("maxsim", "again", [], 1.0)])
    waiting.add([waiting.job("third", query=True)])
    assert batches(waiting, 1000) == [["asked"], ["again"], ["third"], ["p", "q"]]


def test_what_was_in_a_batch_that_failed_goes_alone_and_in_order():
    waiting = filled("a", "b", "c")
    waiting.put_back(waiting.take(1000), blame=True)
    assert batches(waiting, 1000) == [["a"], ["b"], ["c"]] and waiting.poisoned == {}


def test_only_what_fails_alone_is_poisoned():
    waiting = filled("a", "b")
    for _ in range(2):
        waiting.put_back(waiting.take(1000), blame=True)
    waiting.put_back(waiting.take(1000), blame=True)
    assert len(waiting.poisoned) == 1
    assert batches(waiting, 1000) == [["b"]]
