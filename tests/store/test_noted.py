"""What one process found damaged is known to the next one, until it is healed."""

from __future__ import annotations

import pytest

from memoryd.files import Files
from memoryd.store.noted import Noted

ONE, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


@pytest.fixture
def path(tmp_path):
    return tmp_path / "damaged"


def test_what_was_noted_is_read_again_and_what_was_healed_is_not(path):
    noted = Noted(path, Files())
    noted.add(ONE)
    noted.add(OTHER)
    noted.add(ONE)
    assert set(Noted(path, Files())) == {ONE, OTHER}
    assert len(path.read_text().splitlines()) == 2
    noted.difference_update([ONE])
    assert set(Noted(path, Files())) == {OTHER}
    noted -= {OTHER}
    assert not path.exists() and set(Noted(path, Files())) == set()


def test_half_a_line_and_foreign_bytes_are_passed_over(path):
    path.write_bytes(b"\xff\x00\n" + ONE.encode() + b"\n" + OTHER.encode()[:20])
    assert set(Noted(path, Files())) == {ONE}


def test_a_disk_that_takes_nothing_does_not_spoil_the_read(path):
    def full(point):
        raise OSError(28, point)

    noted = Noted(path, Files(full))
    noted.add(ONE)
    assert ONE in noted and not path.exists()
    noted.discard(ONE)
    assert ONE not in noted
