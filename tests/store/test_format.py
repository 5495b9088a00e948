"""FORMAT: golden bytes, and refusal of whatever is not what was written."""

from __future__ import annotations

import hashlib

import pytest

from memoryd.config import StoreConfig
from memoryd.errors import FormatDamaged, FormatUnsupported
from memoryd.store.chunker import new_format
from memoryd.store.format import StoreFormat, parse_format


def resealed(lines: list[str]) -> bytes:
    body = ("\n".join(lines) + "\n").encode()
    return body + b"sha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n"


def lines_of(rules: StoreFormat) -> list[str]:
    return rules.render().decode().splitlines()[:-1]


@pytest.fixture
def rules() -> StoreFormat:
    return StoreFormat(2048, 8192, 65536, 1000, (400, 1000))


def test_golden_format_file(golden):
    """The FORMAT of a home with default sizes is this file, byte for byte, on every platform."""
    committed = (golden / "FORMAT").read_bytes()
    assert new_format(StoreConfig()).render() == committed
    assert parse_format(committed, "FORMAT") == new_format(StoreConfig())


def test_what_is_rendered_is_parsed(rules):
    assert parse_format(rules.render(), "FORMAT") == rules


def test_the_last_line_is_the_hash_that_sha256sum_prints(rules):
    data = rules.render()
    body, last = data[: data.rindex(b"sha256 ")], data[data.rindex(b"sha256 ") :]
    assert last.decode().split() == ["sha256", hashlib.sha256(body).hexdigest()]


def test_every_flipped_bit_is_noticed(rules):
    data = rules.render()
    for at in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[at] ^= 1 << bit
            with pytest.raises(FormatDamaged):
                parse_format(bytes(wrong), "FORMAT")


def test_every_truncation_and_every_addition_is_noticed(rules):
    data = rules.render()
    for wrong in [data[:end] for end in range(len(data))] + [data + b"\n", data + b"x", b"\n" + data]:
        with pytest.raises(FormatDamaged):
            parse_format(wrong, "FORMAT")


def test_unknown_keys_are_ignored(rules):
    assert parse_format(resealed([*lines_of(rules), "colour blue"]), "FORMAT") == rules


@pytest.mark.parametrize(
    ("old", "new"), [("version 1", "version 2"), ("hash sha256", "hash blake3")], ids=["version", "hash"]
)
def test_an_unknown_version_or_hash_is_unsupported(rules, old, new):
    with pytest.raises(FormatUnsupported):
        parse_format(resealed([line.replace(old, new) for line in lines_of(rules)]), "FORMAT")


def test_a_missing_line_is_named(rules):
    lines = [line for line in lines_of(rules) if not line.startswith("chunk_avg")]
    with pytest.raises(FormatDamaged, match="chunk_avg"):
        parse_format(resealed(lines), "FORMAT")


def test_a_size_that_is_no_number_is_damage(rules):
    lines = [line.replace("chunk_avg 8192", "chunk_avg many") for line in lines_of(rules)]
    with pytest.raises(FormatDamaged, match="number"):
        parse_format(resealed(lines), "FORMAT")


def test_another_title_is_damage(rules):
    with pytest.raises(FormatDamaged, match="start"):
        parse_format(resealed(["something else", *lines_of(rules)[1:]]), "FORMAT")
