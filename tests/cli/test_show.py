"""What does a person read of a search's answer?"""

from __future__ import annotations

from memoryd import show

HIT = {
    "id": "ab" * 32,
    "content": "    return 9",
    "source": "code/feed.py",
    "address": "sha256:" + "cd" * 32,
    "lines": [7, 7],
    "relevance": 0.5,
    "status": "in_force",
    "scope": "global",
    "kind": "code",
    "title": "feed",
}
ANSWER = {"summary": "1 of 1.", "suggestions": [], "index": {"generation": 1, "pending": 0, "degraded": []}}


def test_surroundings_and_other_places_of_a_hit_are_named(capsys):
    around = {
        "within": [{"symbol": "Zoo", "content": "class Zoo(\n    Base):"}],
        "before": {"source": "t/1"},
        "after": {"source": "t/3"},
        "also": ["docs/a.md", "docs/b.md"],
        "also_more": 2,
    }
    show.hits({**ANSWER, "memories": [HIT | around]})
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    for wanted in ("also docs/a.md", "also docs/b.md", "and 2 more places", "in class Zoo(", "before it t/1"):
        assert wanted in lines
    assert "after it t/3" in lines
    show.hits({**ANSWER, "memories": [HIT]})
    assert "also" not in capsys.readouterr().out


def test_what_speaks_for_a_hit_is_told_in_few_digits(capsys):
    explain = {"ranks": {"dense": 1}, "scores": {"dense": 0.6651}, "lifts": {"thread": -0.302542453}, "fused": 1.91948}
    show.hits({**ANSWER, "memories": [HIT | {"explain": explain}]})
    assert "dense no. 1 (0.665), lifts thread -0.303: together 1.9195" in capsys.readouterr().out
