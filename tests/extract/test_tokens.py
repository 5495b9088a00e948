"""Is every kind of shaped credential found, wherever it stands, and nothing that only looks a little like one?"""

from __future__ import annotations

import hashlib
import uuid

import pytest

from memoryd.extract.tokens import SHAPES, begins, tokens
from tests.extract.credentials import HEX, SHAPED, Maker

KINDS = sorted(set(SHAPED) - {"private-key"})


def kinds(text: str) -> list[str]:
    return sorted({kind for kind, _start, _end in tokens(text)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "around", ["{}", "use {} here", "`{}`", "a={}&b=1", '["{}"]', "first\\n{}\\n", "k%3D{}", "({}).", "ü{}"[1:]]
)
def test_each_kind_is_found_whole_wherever_it_stands(kind, around):
    for seed in range(5):
        one = Maker(seed).of(kind)
        found = [text[start:end] for text in [around.format(one)] for _kind, start, end in tokens(text)]
        assert found == [one], (kind, around)
        assert kinds(around.format(one)) == [kind]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape.kind} {shape.starts[0]}")
def test_each_shape_of_the_table_finds_what_it_describes(shape):
    letters = {"A-Z0-9": "ABCDEFGHJKLMNPQRSTUVWXYZ234567", "0-9a-f": HEX, "0-9a-f-": HEX}
    for number, start in enumerate(shape.starts):
        drawn = Maker(number).draw(
            letters.get(shape.letters, "abcdefghijkmnopqrstuvwABCDEFGHJKLM23456789"), shape.least
        )
        text = f"key {start}{drawn} end"
        assert (shape.kind, 4, len(text) - 4) in list(tokens(text)), start
        assert not list(tokens(f"key {start}{drawn[: shape.least - 2]} end")), "too short"


@pytest.mark.parametrize("kind", ["github-token", "aws-access-key", "stripe-key", "npm-token", "anthropic-key"])
def test_a_piece_of_a_longer_word_is_none(kind):
    one = Maker(3).of(kind)
    assert not kinds(f"x{one}") and not kinds(f"_{one}")


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7" + "EXAMPLE",
        "ghp_" + "x" * 36,
        "ghp_" + "0123456789" * 4,
        "sk-" + "1234567890abcdef" * 3,
        "sk_live_your_key_goes_here_now",
        "npm_run_build_and_then_run_the_tests_again_please",
        "xoxb-your-token-goes-right-here",
        "task-sk-learn and sk-learn, hf_hub_download, SK-1234, key-value-store, r8_something",
        "eyJhbGciOiJub25lIn0.only-two-parts-here-and-no-more",
        "eyJub3QganNvbg.eyJub3QganNvbg.c2lnbmF0dXJlIG9mIG5vdGhpbmc",
        hashlib.sha256(b"x").hexdigest(),
        hashlib.sha1(b"x").hexdigest(),
        "sha256:" + hashlib.sha256(b"y").hexdigest(),
        str(uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF)),
        "sha512-" + "z8kd03JfQ" * 9 + "==",
    ],
)
def test_examples_hashes_and_names_are_none(text):
    assert kinds(text) == []


def test_a_word_may_begin_after_an_escape():
    assert begins("ghp_", 0) and begins(" ghp_", 1) and begins("\\nghp_", 2) and begins("%20ghp_", 3)
    assert not begins("nghp_", 1) and not begins("a_ghp_", 2) and not begins("20ghp_", 2)
