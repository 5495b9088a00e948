"""From which likeness on does the active model say something about two memories, here and by labelled pairs?

Measured are the pairs that memoryd ships with and the vault itself: the nearest neighbour of each memory in force, and
the same memory written once more. The cuts are kept under the model's fingerprint. They only flag and propose: whether
a text is withheld is decided by its words alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memoryd.digest import memory_id
from memoryd.extract.ruling import is_statement, revises
from memoryd.extract.wording import overlap, same_words, words
from memoryd.operations.comparing import is_long, passages_of
from memoryd.operations.home import Home
from memoryd.operations.inputs import derived_title
from memoryd.operations.labelled import DISTINCT, REVISION, SAME, UNRELATED, Pair, read_pairs, shipped
from memoryd.operations.nearness import PLAIN, Cuts, cosine, keep_cuts, likeness, read_cuts
from memoryd.operations.neighbourhood import Neighbourhood, survey
from memoryd.operations.separation import Cut, auc, between, reached
from memoryd.records import GLOBAL_SCOPE, MemoryFields

ENOUGH = 100
"""Neighbours from which on the vault has a say: one in a hundred cannot be counted among fewer."""
BATCH = 32
MEASURES = ("words", "cosine", "both")
Progress = Callable[[int, int, str], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Scored:
    """A pair, and how near its texts are by each measure."""

    pair: Pair
    words: float
    cosine: float | None

    @property
    def both(self) -> float:
        """What a memory is compared by."""
        return likeness(self.words, self.cosine)

    @property
    def long(self) -> bool:
        """Whether likeness alone may propose a revision."""
        return is_long(self.pair.b, self.pair.a)


def calibrate(
    home: Home,
    *,
    pairs: Path | None = None,
    progress: Progress = lambda _done, _total, _note: None,
    stop: Stop = lambda: False,
) -> dict[str, Any]:
    """Measure, keep the cuts, and return the figures; `pairs` names labelled pairs to measure besides.

    Stopped, it keeps nothing. Raises InvalidInput for a malformed file, ModelError kinds, OSError.
    """
    theirs = [] if pairs is None else read_pairs(pairs)
    own = scored(home, shipped(), progress, stop)
    vault = survey(home, progress, stop)
    measured = {} if pairs is None else {"file": figures(scored(home, theirs, progress, stop))}
    if stop():
        return {"stopped": True}
    model = home.host.identity
    before = read_cuts(home).get(model.fingerprint)
    found = choose(own, vault.long)
    by_words = choose([replace(one, cosine=None) for one in own], [])
    keep_cuts(home, {model.fingerprint: found, PLAIN: by_words})
    return {
        "stopped": False,
        "model": {"name": model.name, "fingerprint": model.fingerprint},
        "cuts": asdict(found),
        "cuts_by_words": asdict(by_words),
        "before": None if before is None else asdict(before),
        "pairs": figures(own),
        **measured,
        "vault": vault.told(found),
        "next": _next(found, vault),
    }


def _next(found: Cuts, vault: Neighbourhood) -> str:
    said = "The cuts are in force from the next add on."
    if not found.gap:
        said += (
            " There is no gap between revisions and distinct memories: at most 1 % of the distinct ones reach the cut,"
            " and some revisions do not."
        )
    said += " Nothing is withheld by likeness: only the same words are."
    if vault.same_words:
        said += " The vault holds memories with the same words: supersede one of each pair under `vault.same_words`."
    return said


def choose(pairs: Sequence[Scored], neighbours: Sequence[float]) -> Cuts:
    """The cuts by the choosing half of labelled pairs, and by the nearest neighbours of distinct memories in a vault.

    Texts of some length alone count for a proposal: what a short statement revises is told by its grammar.
    """
    half = [one for one in pairs if one.pair.chooses]
    related = [one.both for one in half if one.pair.label in (SAME, REVISION)]
    near = between(related, [one.both for one in half if one.pair.label == UNRELATED])
    long = [one for one in half if one.long]
    revised = [one.both for one in long if one.pair.label == REVISION]
    other = [one.both for one in long if one.pair.label in (DISTINCT, UNRELATED)]
    cut = between(revised, other)
    if len(neighbours) >= ENOUGH:
        whole, here = between(revised, [*other, *neighbours]), between(revised, neighbours)
        cut = whole if whole.gap else Cut(max(cut.value, here.value), gap=False)
    return Cuts(round(min(near.value, cut.value), 4), round(cut.value, 4), cut.gap and near.gap)


def figures(pairs: Sequence[Scored]) -> dict[str, Any]:
    """What labelled pairs say of each measure: the cut is chosen on one half, all else is counted on the other."""
    labels = Counter(one.pair.label for one in pairs)
    withheld = Counter(one.pair.label for one in pairs if same_words(one.pair.a, one.pair.b))
    return {
        "count": dict(sorted(labels.items())),
        "withheld": {label: withheld[label] for label in sorted(labels)},
        "measures": {name: _figure(pairs, name) for name in MEASURES},
        "grammar": _grammar(pairs),
    }


def _figure(pairs: Sequence[Scored], name: str) -> dict[str, Any] | None:
    """None where a half lacks a class."""
    sides: dict[tuple[bool, bool], list[float]] = {(a, b): [] for a in (True, False) for b in (True, False)}
    for one in pairs:
        value = getattr(one, name)
        if value is not None and one.pair.label != SAME:
            sides[one.pair.chooses, one.pair.label == REVISION].append(value)
    if not all(sides.values()):
        return None
    cut = between(sides[True, True], sides[True, False])
    related, other = sides[False, True], sides[False, False]
    return {
        "auc": round(auc(related, other), 3),
        "cut": round(cut.value, 4),
        "gap": cut.gap,
        "revisions": round(reached(related, cut.value), 3),
        "false_alarms": round(reached(other, cut.value), 3),
    }


def _grammar(pairs: Sequence[Scored]) -> dict[str, int]:
    """How many statements among them are told apart without any likeness."""
    short = [one.pair for one in pairs if is_statement(one.pair.a) and is_statement(one.pair.b)]
    told = Counter((one.label == REVISION, revises(one.a, one.b) is not None) for one in short if one.label != SAME)
    revisions, distinct = told[True, True] + told[True, False], told[False, True] + told[False, False]
    return {"revisions": revisions, "found": told[True, True], "distinct": distinct, "mistaken": told[False, True]}


def scored(home: Home, pairs: Sequence[Pair], progress: Progress, stop: Stop) -> list[Scored]:
    """Each pair as it would be compared if its texts were memories; none once stopped."""
    texts = list(dict.fromkeys(text for pair in pairs for text in (pair.a, pair.b)))
    vectors = _vectors(home, texts, progress, stop)
    if stop():
        return []
    return [
        Scored(pair, overlap(words(pair.a), words(pair.b)), cosine(vectors[pair.a], vectors[pair.b])) for pair in pairs
    ]


def _vectors(home: Home, texts: Iterable[str], progress: Progress, stop: Stop) -> dict[str, list[bytes]]:
    """The vectors of the passages that each text would have as a memory."""
    passages = {text: passages_of(_as_memory(text)) for text in texts}
    wanted = {one.text_sha256: one.embed_text for found in passages.values() for one in found}
    fingerprint = home.host.identity.fingerprint
    known = home.cache.get_many(fingerprint, list(wanted))
    missing = [digest for digest in wanted if digest not in known]
    for at in range(0, len(missing), BATCH):
        progress(at, len(missing), "texts")
        part = missing[at : at + BATCH]
        made = home.host.embed_passages([wanted[digest] for digest in part], stop)
        fresh = {digest: vector for digest, vector in zip(part, made, strict=True) if vector is not None}
        home.cache.put_many(fingerprint, fresh)
        known |= fresh
        if stop():
            break
    return {
        text: [known[one.text_sha256] for one in found if one.text_sha256 in known] for text, found in passages.items()
    }


def _as_memory(text: str) -> MemoryFields:
    identity = memory_id(scope=GLOBAL_SCOPE, type="note", key=None, content=text, supersedes=None)
    moment = "2000-01-01T00:00:00.000000Z"  # it is cut, never stored
    return MemoryFields(
        id=identity,
        fact=identity,
        seq=1,
        type="note",
        title=derived_title(text),
        scope=GLOBAL_SCOPE,
        status="in_force",
        created=moment,
        updated=moment,
        body=text,
    )
