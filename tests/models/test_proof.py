"""Behaviour of memoryd.models.proof."""

from __future__ import annotations

import array
import random

from memoryd.models.proof import PAIRS, prove


def test_the_embedded_model_separates(shared):
    found = prove(lambda texts: shared.embed_passages(texts, lambda: False))
    assert found.holds and found.found > 0.8 and found.paraphrase > found.unrelated + 0.3


def test_random_weights_do_not():
    """Random numbers, and a model to which everything is near."""
    draw = random.Random(3)
    noise = {text: array.array("f", (draw.gauss(0, 1 / 8) for _ in range(64))).tobytes() for p in PAIRS for text in p}
    assert not prove(lambda texts: [noise[text] for text in texts]).holds
    same = array.array("f", [1.0, 0.0]).tobytes()
    assert not prove(lambda texts: [same for _ in texts]).holds
