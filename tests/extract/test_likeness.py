"""Does a drawn value look drawn, and a word like a word?"""

from __future__ import annotations

import pytest

from memoryd.extract.likeness import made_up, password_like, placeholder, random_looking
from tests.extract.credentials import ALNUM, HEX, Maker


def test_drawn_values_look_drawn():
    assert all(random_looking(Maker(seed).draw(HEX, 32)) for seed in range(200))
    assert sum(random_looking(Maker(seed).draw(ALNUM, 20)) for seed in range(500)) >= 495


@pytest.mark.parametrize(
    "value",
    ["hunter", "created_at_2", "sha256", "us-east-1", "UserService2", "oauth2-client", "1234567890", "", "a.b.c1",
     "getElementById", "supercalifragilistic", "HTTPServer", "/var/lib/app1"],
)  # fmt: skip
def test_names_do_not(value):
    assert not random_looking(value)


def test_letters_alone_look_drawn_by_case_and_consonants():
    assert random_looking("kJqZtRwPmNbVxL") and random_looking("qzvkxwjptrmhs")
    assert not random_looking("PasswordResetHandler") and not random_looking("kJqZtRw")


def test_a_password_needs_a_digit_or_a_sign():
    assert all(map(password_like, ["hunter2", "Sommer2024!", "s3cr3t", "correct!horse"]))
    assert not any(map(password_like, ["hunter", "abc1", "user_1", "/etc/passwd1", "http://x1", "123456", "--flag1"]))


def test_what_stands_for_a_value_is_known():
    for value in (
        "password",
        "Secret!",
        "password1",
        "${X}",
        "$X",
        "<it>",
        "{it}",
        "xxxxxxxx",
        "your-key",
        "a@b.org",
        "…...",
    ):
        assert placeholder(value), value
    assert not any(map(placeholder, ["hunter2", "Pa$$w0rd", "geheim$parole"]))
    assert made_up("0" * 20) and made_up("KEYEXAMPLE1234ABCD") and not made_up(Maker(1).draw(ALNUM, 20))
