"""Are the cuts what the pairs and the vault give, are they used, and do they never withhold anything?"""

from __future__ import annotations

import json

import pytest

from memoryd.errors import InvalidInput
from memoryd.operations import gateway
from memoryd.operations.calibrate import ENOUGH, Scored, calibrate, choose
from memoryd.operations.labelled import DISTINCT, REVISION, UNRELATED, Pair
from memoryd.operations.nearness import DEFAULT, DEFAULT_WORDS, PLAIN, THRESHOLDS, Cuts, cuts, keep_cuts, read_cuts
from tests.operations.conftest import commits, opened, settle
from tests.templates import lay

RULE = "The import of the price list runs at night and takes an hour. Look into its log first when it fails. Then ask Dana."
NEAR = (
    "The import of the price list runs at noon and takes a minute. Look into its log first when it fails. Then ask Kim."
)
VARIANT = (
    "the import of the price list runs at night and takes an hour; then ask Dana. Look into its log first when it fails"
)
LONG = "one two three four five six seven eight nine ten eleven twelve"


def _embedded(root):
    """A home that knows the vectors of the shipped pairs and has measured nothing yet."""
    with opened(root) as home:
        calibrate(home)
    (root / THRESHOLDS).unlink()


@pytest.fixture
def root(tmp_path):
    lay(_embedded, tmp_path / "home")
    return tmp_path / "home"


def test_the_default_cuts_are_what_the_shipped_pairs_give_with_the_embedded_model(home):
    answer = calibrate(home)
    found, plain = Cuts(**answer["cuts"]), Cuts(**answer["cuts_by_words"])
    for measured, default in ((found, DEFAULT), (plain, DEFAULT_WORDS)):
        assert measured.similar == pytest.approx(default.similar, abs=0.03)
        assert measured.revision == pytest.approx(default.revision, abs=0.03)
        assert measured.gap == default.gap
    assert answer["before"] is None
    assert read_cuts(home) == {home.host.identity.fingerprint: found, PLAIN: plain}
    assert calibrate(home)["before"] == answer["cuts"]


def test_the_figures_are_of_the_half_that_did_not_choose(home):
    told = calibrate(home)["pairs"]
    assert told["withheld"] == {"distinct": 0, "revision": 0, "same": told["count"]["same"], "unrelated": 0}
    assert set(told["measures"]) == {"words", "cosine", "both"}
    both = told["measures"]["both"]
    assert both["auc"] > 0.95
    assert both["revisions"] > 0.5
    assert both["false_alarms"] <= 0.05
    assert told["grammar"]["mistaken"] == 0


def test_the_cuts_outlive_the_process(root):
    with opened(root) as home:
        found = calibrate(home)["cuts"]
    with opened(root) as home:
        assert cuts(home) == Cuts(**found)


@pytest.mark.parametrize("absurd", [Cuts(-1.0, -1.0), Cuts(0.0, 0.0, gap=False), Cuts(2.0, 2.0)])
def test_nothing_is_withheld_by_likeness_whatever_the_cuts(home, project, absurd):
    caller = project("app")
    keep_cuts(home, {home.host.identity.fingerprint: absurd, PLAIN: absurd})
    first = gateway.add(home, caller, content=RULE, type="fact")
    settle(home)
    near = gateway.add(home, caller, content=NEAR, type="fact")
    assert near["outcome"] in ("added", "conflicts")
    assert commits(home) == 2
    settle(home)
    variant = gateway.add(home, caller, content=VARIANT, type="fact")
    assert (variant["outcome"], variant["neighbour"]["id"]) == ("similar", first["id"])
    assert commits(home) == 2


def test_the_cuts_flag_and_propose(home, project):
    caller = project("app")
    first = gateway.add(home, caller, content=RULE, type="fact")["id"]
    settle(home)

    def asked(measured, text):
        keep_cuts(home, {home.host.identity.fingerprint: measured, PLAIN: measured})
        answer = gateway.add(home, caller, content=text, type="fact")
        settle(home)
        return [one["id"] for one in answer["similar"]], [one["id"] for one in answer.get("conflicts", [])]

    other = (
        "Invoices are numbered without gaps. A cancelled invoice keeps its number. The credit note gets one of its own."
    )
    assert asked(Cuts(2.0, 2.0), other) == ([], [])
    assert first in asked(Cuts(0.0, 2.0), other + " That is the law.")[0]
    assert first in asked(Cuts(2.0, 0.0), other + " The tax office looks.")[1]


def score(label, value, chooses=True, text=LONG):
    number = 0
    while Pair(text, f"{text} {number}", label).chooses != chooses:
        number += 1
    return Scored(Pair(text, f"{text} {number}", label), value, value)


def test_a_gap_gives_its_middle_and_is_said():
    pairs = [score(UNRELATED, 0.1), score(DISTINCT, 0.4), score(REVISION, 0.8), score(REVISION, 0.0, chooses=False)]
    assert choose(pairs, []) == Cuts(0.45, 0.6, gap=True)


def test_without_a_gap_it_is_said_and_the_distinct_ones_stay_below():
    pairs = [score(UNRELATED, 0.1), score(DISTINCT, 0.7), score(REVISION, 0.6), score(REVISION, 0.8)]
    found = choose(pairs, [])
    assert (found.gap, found.revision, found.similar) == (False, pytest.approx(0.75), pytest.approx(0.35))


def test_short_statements_do_not_move_the_cut_of_proposals():
    pairs = [score(UNRELATED, 0.1), score(DISTINCT, 0.4), score(REVISION, 0.8)]
    assert choose([*pairs, score(DISTINCT, 0.95, text="Use a for b.")], []).revision == pytest.approx(0.6)


def test_the_vault_has_a_say_once_it_is_large_enough():
    pairs = [score(UNRELATED, 0.1), score(DISTINCT, 0.4), score(REVISION, 0.8)]
    assert choose(pairs, [0.9] * (ENOUGH - 1)) == choose(pairs, [])
    narrowed = choose(pairs, [0.5] * (ENOUGH - 1) + [0.7])
    assert (narrowed.gap, narrowed.revision) == (True, pytest.approx(0.75))
    closed = choose(pairs, [0.5] * (ENOUGH - 2) + [0.85, 0.9])
    assert not closed.gap
    assert 0.85 < closed.revision <= 0.9, "one in a hundred may reach it"


def test_a_file_of_pairs_is_measured_besides_and_moves_nothing(home, tmp_path):
    path = tmp_path / "mine.jsonl"
    lines = [
        {"a": f"The limit of queue {n} is {n}.", "b": f"The limit of queue {n} is {n + 1}.", "label": "supersedes"}
        for n in range(8)
    ]
    lines += [{"old": f"The limit of queue {n} is 1.", "new": "Ask Kim.", "label": "unrelated"} for n in range(8)]
    path.write_text("\n".join(map(json.dumps, lines)))
    answer = calibrate(home, pairs=path)
    assert answer["file"]["count"] == {"revision": 8, "unrelated": 8}
    assert answer["file"]["measures"]["both"]["gap"]
    assert answer["cuts"] == calibrate(home)["cuts"]


def test_a_malformed_file_is_refused_before_anything_is_measured(home, tmp_path):
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(InvalidInput, match="bad:1"):
        calibrate(home, pairs=tmp_path / "bad")
    assert home.host.status()["state"] == "off"


def test_stopped_it_keeps_nothing(tmp_path):
    steps = []
    with opened(tmp_path / "fresh") as home:
        answer = calibrate(home, progress=lambda *step: steps.append(step), stop=lambda: bool(steps))
        assert answer == {"stopped": True}
        assert not (home.root / THRESHOLDS).exists()
