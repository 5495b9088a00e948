"""What became of the bytes that a citation names, in a file as it is now?

Pure. `fresh` means that the same lines stand at the same place; how they end is no difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from memoryd.digest import address_of
from memoryd.extract.lines import Lines, lines_of
from memoryd.operations.guard import redacted
from memoryd.operations.lookout import Standing
from memoryd.sources.citation import Citation

Step = tuple[str, int, int, int, int]
"""What became of some old lines: the kind, their first and last + 1, and those of the new lines."""
COMPARED = 400
"""Lines that are compared one by one; the work grows with their square."""
AROUND = 50
"""Lines added among the cited ones that are still taken for one change."""
SHOWN = 3
"""Lines of each side that a hint shows."""
WIDTH = 120
COMMON = 20
"""A line that stands in a file more often does not tell where the cited ones went."""
LOOKED_BYTES = 256_000
"""Bytes that are looked through for secrets before any of them is shown."""
HASHED_BYTES = 8_000_000
"""Bytes that are hashed in search of lines whose words are not kept."""


def drifted(citation: Citation, data: bytes, kept: Callable[[], bytes | None]) -> Standing:
    """How a citation stands against its file's bytes; `kept` gives the cited bytes as they were, where it has them."""
    lines = lines_of(data)
    if not citation.first:
        if _same(data, citation.address):
            return _fresh(data, citation.address)
    elif lines is None:
        return Standing("changed", "the file is no text any more")
    elif citation.last <= lines.count and _same(piece := lines.piece(citation.first, citation.last), citation.address):
        return _fresh(piece, citation.address)
    before = kept()
    old = lines_of(before) if before is not None else None
    if lines is None or old is None:
        moved = _found_by_hash(citation, lines) if lines is not None and citation.first else []
        return _moved(citation, moved) if moved else Standing("changed", _blindly(citation, lines))
    moved = _found(old.words(), lines.words()) if citation.first else []
    return _moved(citation, moved) if moved else _compared(citation, old.words(), lines.words())


def _fresh(piece: bytes, address: str) -> Standing:
    return Standing("fresh", "" if address_of(piece) == address else "only the line ends differ")


def _same(piece: bytes, address: str) -> bool:
    """Whether this is the content of the address, line ends aside."""
    if address_of(piece) == address:
        return True
    plain = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    whole = plain.removesuffix(b"\n")
    wide = whole.replace(b"\n", b"\r\n")
    return any(address_of(one) == address for one in {whole, whole + b"\n", wide, wide + b"\r\n"} - {piece})


def _found(old: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
    """Where (first lines, 1-based) the old lines stand, one after the other."""
    if not old:
        return []
    return [at + 1 for at, line in enumerate(new) if line == old[0] and new[at : at + len(old)] == old]


def _found_by_hash(citation: Citation, lines: Lines) -> list[int]:
    size = citation.last - citation.first + 1
    starts = range(1, lines.count - size + 2)
    if len(lines.data) * size > HASHED_BYTES:
        return []
    return [first for first in starts if address_of(lines.piece(first, first + size - 1)) == citation.address]


def _moved(citation: Citation, places: list[int]) -> Standing:
    nearest = min(places, key=lambda first: abs(first - citation.first))
    there = citation.moved(nearest, nearest + citation.last - citation.first)
    where = there.at.rpartition("#")[2]
    if len(places) > 1:
        return Standing("changed", f"the lines stand at {len(places)} places now, the nearest is {where}", now=there.at)
    return Standing("changed", f"the lines moved to {where}", now=there.at)


def _blindly(citation: Citation, lines: Lines | None) -> str:
    if lines is not None and citation.last > lines.count:
        return f"the file ends at L{lines.count}"
    return "it is another text now; the former one is not kept"


def _compared(citation: Citation, old: list[bytes], new: list[bytes]) -> Standing:
    count = _lines(len(old))
    if len(old) > COMPARED or (not citation.first and len(new) > 2 * COMPARED):
        return Standing("changed", f"some of {count} differ")
    first = _where(old, new, citation.first - 1) if citation.first else 0
    beside = new[first : first + len(old) + AROUND] if citation.first else new
    steps: list[Step] = [*SequenceMatcher(None, old, beside, autojunk=False).get_opcodes()]
    steps = _trimmed(steps) if citation.first else steps
    away = [line for kind, a, b, _c, _d in steps if kind != "equal" for line in old[a:b]]
    come = [line for kind, _a, _b, c, d in steps if kind != "equal" for line in beside[c:d]]
    said = f"{len(away)} of {count} differ" if away else f"{_lines(len(come))} added among {count}"
    if len(away) == len(old):
        said = f"none of {count} stands there any more" if len(old) > 1 else "the line is another one now"
    elif citation.first and (begin := first + steps[0][3] + 1) != citation.first:
        said += f"; they begin at L{begin} now"
    if citation.last > len(new):
        said += f"; the file ends at L{len(new)}"
    if _holds_secret(new[max(first - AROUND, 0) : first + len(beside)]):
        return Standing("changed", f"{said}; they are not shown, what stands there now looks like a secret")
    return Standing("changed", said, _shown(away, come))


def _trimmed(steps: list[Step]) -> list[Step]:
    """Without what stands before and after the cited lines."""
    kept = [step for at, step in enumerate(steps) if step[0] != "insert" or 0 < at < len(steps) - 1]
    if kept and kept[0][0] == "replace":
        kind, a, b, c, d = kept[0]
        kept[0] = (kind, a, b, max(c, d - (b - a)) if len(kept) > 1 else c, d)
    if kept and kept[-1][0] == "replace":
        kind, a, b, c, d = kept[-1]
        kept[-1] = (kind, a, b, c, min(d, c + (b - a)))
    return kept


def _holds_secret(lines: Sequence[bytes]) -> bool:
    """Whether what would be shown, seen with its neighbours, holds a secret; what is too long to tell counts as one."""
    text = b"\n".join(lines)
    return len(text) > LOOKED_BYTES or bool(redacted(text.decode("utf-8", "replace")).counts)


def _lines(number: int) -> str:
    return "1 line" if number == 1 else f"{number} lines"


def _where(old: Sequence[bytes], new: Sequence[bytes], before: int) -> int:
    """Where (0-based) most of the old lines would stand together; without any sign where they stood before."""
    places: dict[bytes, list[int]] = {}
    for at, line in enumerate(new):
        if line.strip():
            places.setdefault(line, []).append(at)
    votes: Counter[int] = Counter()
    alone: set[int] = set()
    for at, line in enumerate(old):
        found = places.get(line, ())
        if len(found) <= COMMON:
            votes.update(place - at for place in found)
        if len(found) == 1:
            alone.add(found[0] - at)
    best = max(votes, key=lambda one: (votes[one], -abs(one - before)), default=before)
    # where lines were added among them, the first ones moved less than most
    return max(min((one for one in alone if best - AROUND <= one < best), default=best), 0)


def _shown(away: Sequence[bytes], come: Sequence[bytes]) -> tuple[str, ...]:
    """The first lines of both sides."""
    return tuple(
        mark + line.decode("utf-8", "replace").strip()[:WIDTH].rstrip()
        for mark, side in (("- ", away), ("+ ", come))
        for line in side[:SHOWN]
    )
