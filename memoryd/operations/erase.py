"""Where outside the packs may words lie that a person wants gone, and how do they go?

Logs, git's own log of what HEAD was, answers and jobs, cached embeddings, indexes, databases that were set aside,
quarantined copies. What cannot be read whole is taken to hold them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from memoryd.errors import PackDamaged
from memoryd.operations.home import Home
from memoryd.operations.windows import file_holds, frame_items

OWNER = "erase"
REMOVED = b"[a line was removed by memoryd forget]"
SHORTEST = 16
"""Titles and lines shorter than this are no trace: they would match what has nothing to do with it."""
LINES_MOST = 500
_SET_ASIDE = re.compile(r".+\.db\.(damaged-\d+|orphaned)(-wal|-shm)?\Z")


@dataclass(slots=True)
class Traces:
    """What gives the erased contents away: words as they may stand elsewhere, chunks, memories, embedded texts."""

    words: set[str] = field(default_factory=set)
    secret: tuple[bytes, ...] = ()
    """What the person named as the words to be erased; in quarantine nothing vaguer is looked for."""
    chunks: set[bytes] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)

    def add_text(self, data: bytes) -> None:
        """The lines of a content."""
        lines = data.decode("utf-8", "replace").splitlines()[:LINES_MOST]
        self.words.update(line for raw in lines if len(line := raw.strip()) >= SHORTEST and line.strip("-=#*` "))

    def needles(self) -> list[bytes]:
        """The words as bytes."""
        return sorted({word.encode("utf-8", "surrogateescape") for word in self.words if word})


def holds(data: bytes, needles: Sequence[bytes]) -> bool:
    """Whether one of the needles stands there."""
    return any(needle in data for needle in needles)


def redact_logs(home: Home, traces: Traces) -> dict[str, int]:
    """Replace each line of a log that holds a trace; lines by file."""
    done = {}
    for path in sorted((home.root / "log").glob("*")):
        if path.is_file() and not path.is_symlink() and (count := _redact(home, path, traces.needles(), b"")):
            done[f"log/{path.name}"] = count
    reflogs = home.vault.git.places().common / "logs"
    for path in sorted(reflogs.rglob("*")):
        if path.is_file() and (count := _redact(home, path, traces.needles(), b"\t")):
            done[f"vault/.git/logs/{path.relative_to(reflogs)}"] = count
    last = home.vault.git.places().own / "COMMIT_EDITMSG"  # git leaves the message of the last commit there
    if last.is_file() and (count := _redact(home, last, traces.needles(), b"")):
        done["vault/.git/COMMIT_EDITMSG"] = count
    return done


def _redact(home: Home, path: Path, needles: Sequence[bytes], keep_up_to: bytes) -> int:
    """Lines replaced in one file; what stands before `keep_up_to` stays."""
    lines = path.read_bytes().split(b"\n")
    count = 0
    for number, line in enumerate(lines):
        if holds(line, needles):
            kept = line.split(keep_up_to, 1)[0] + keep_up_to if keep_up_to else b""
            lines[number] = kept + REMOVED
            count += 1
    if count:
        home.files.replace(path, b"\n".join(lines), owner=OWNER)
    return count


def forget_views(home: Home, traces: Traces) -> dict[str, int]:
    """Rows of caches and soft state that hold a trace; how many of each went."""
    words = sorted(traces.words)
    done = {
        "embeddings": home.cache.drop(traces.texts),
        "answers_and_recalls": home.state.erase(traces.facts, words),
        "jobs": home.jobs.erase(words),
    }
    home.catalog.compact()
    return done


def drop_indexes(home: Home) -> list[str]:
    """Remove every index: what was deleted from one stays in its files for a while. Tells what could not be removed."""
    with home.index_lane:
        if home.generation is not None:
            home.generation.close()
            home.generation = None
        home.files.unlink(home.root / "indexes" / "CURRENT", owner=OWNER)
        for folder in (home.root / "indexes").glob("gen-*"):
            shutil.rmtree(folder)
        places = home.generations.places
        return [] if places.collect((), insist=True) else [f"vectors at {places.place}, which cannot be reached"]


def drop_set_aside(home: Home) -> list[str]:
    """Remove databases that were set aside as damaged: nobody can tell what they hold."""
    found = [path for path in sorted(home.root.iterdir()) if _SET_ASIDE.match(path.name)]
    for path in found:
        home.files.unlink(path, owner=OWNER)
    return [path.name for path in found]


def quarantined(home: Home, traces: Traces) -> list[Path]:
    """Files in quarantine that hold a trace, or may: a pack of which not every frame can be read."""
    folder = home.root / "store" / "quarantine"
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and _suspect(path, traces)]


def drop_quarantined(home: Home, traces: Traces) -> list[str]:
    """Remove those; their names."""
    found = quarantined(home, traces)
    for path in found:
        home.files.unlink(path, owner=OWNER)
    return [path.relative_to(home.root).as_posix() for path in found]


def _suspect(path: Path, traces: Traces) -> bool:
    if file_holds(path, traces.secret):
        return True
    try:
        with path.open("rb") as stream:
            return any(digest in traces.chunks or holds(raw, traces.secret) for digest, raw in frame_items(stream))
    except PackDamaged:
        return True


def remains(home: Home, needles: Sequence[bytes]) -> list[str]:
    """Files of the home and the vault, git's own aside, in whose bytes a needle still stands."""
    tops = {home.root, home.vault.path}
    files = {path for top in tops for path in top.rglob("*") if path.is_file() and not path.is_symlink()}
    mine = [path for path in files if ".git" not in path.parts]
    return sorted(str(path) for path in mine if file_holds(path, needles))
