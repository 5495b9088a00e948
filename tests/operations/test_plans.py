"""Is a token good for exactly one plan, of this home, for a while, and does it give one answer?"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memoryd.errors import HomeError, TokenInvalid
from memoryd.operations import plans
from tests.operations.conftest import opened

PLAN = {"kind": "archive", "id": "a" * 64, "state": "sha256:" + "b" * 64, "reason": "old"}
ASKED = {name: value for name, value in PLAN.items() if name != "state"}


def test_a_token_is_for_its_plan_only(home):
    token = plans.seal(home, PLAN, ASKED)
    plans.redeem(home, token, PLAN)
    plans.redeem(home, token, dict(reversed(PLAN.items())))
    for name in PLAN:
        with pytest.raises(TokenInvalid, match="another plan"):
            plans.redeem(home, token, {**PLAN, name: "other"})


def test_a_token_lives_an_hour_and_survives_a_restart(root):
    with opened(root) as home:
        token = plans.seal(home, PLAN, ASKED)
        now = home.clock()
    with opened(root) as home:
        home.clock = lambda: now + plans.LIFETIME_SECONDS - 1
        plans.redeem(home, token, PLAN)
        home.clock = lambda: now + plans.LIFETIME_SECONDS + 1
        with pytest.raises(TokenInvalid, match="too old"):
            plans.redeem(home, token, PLAN)


def test_a_plan_that_was_done_undone_and_made_again_within_a_second_gets_a_token_of_its_own(root):
    """Else the second one would answer as the first did and do nothing."""
    with opened(root, clock=lambda: 1_000_000.0) as home:
        first = plans.seal(home, PLAN, ASKED)
        assert plans.seal(home, PLAN, ASKED) == first
        plans.keep_answer(home, first, {"outcome": "archived"})
        second = plans.seal(home, PLAN, ASKED)
        assert plans.first_answer(home, second) is None
        plans.redeem(home, second, PLAN)
        assert plans.first_answer(home, first) == {"outcome": "archived"}


def test_a_token_of_another_home_is_refused(home, tmp_path):
    with opened(tmp_path / "other") as other:
        token = plans.seal(other, PLAN, ASKED)
    with pytest.raises(TokenInvalid, match="this home"):
        plans.redeem(home, token, PLAN)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(max_size=80))
def test_nonsense_is_refused_as_nonsense(home, text):
    for call in (
        lambda: plans.redeem(home, text, PLAN),
        lambda: plans.first_answer(home, text),
        lambda: plans.check_arguments(home, text, ASKED),
    ):
        with pytest.raises(TokenInvalid):
            call()


def test_the_arguments_are_told_apart_from_the_state_and_outlive_the_hour(home):
    token = plans.seal(home, PLAN, ASKED)
    now = home.clock()
    home.clock = lambda: now + plans.LIFETIME_SECONDS + 1
    plans.check_arguments(home, token, dict(reversed(ASKED.items())))
    for name in ASKED:
        with pytest.raises(TokenInvalid, match="arguments differ"):
            plans.check_arguments(home, token, {**ASKED, name: "other"})


def test_the_first_answer_stands(home):
    token = plans.seal(home, PLAN, ASKED)
    assert plans.first_answer(home, token) is None
    assert plans.keep_answer(home, token, {"n": 1}) == {"n": 1}
    assert plans.keep_answer(home, token, {"n": 2}) == {"n": 1}
    assert plans.first_answer(home, token) == {"n": 1}


def test_the_key_is_private_and_a_damaged_one_is_named(home, root):
    plans.seal(home, PLAN, ASKED)
    path = root / "seal.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes()) == 32
    path.write_bytes(b"short")
    with pytest.raises(HomeError, match=r"seal\.key"):
        plans.seal(home, PLAN, ASKED)
