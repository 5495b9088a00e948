"""Is a text a turn of a conversation: who speaks, in which conversation, and where in it? Is it code?

A turn begins with a name and a colon (`Ana: ...`, `assistant: ...`), and only one speaks in it. A document that is one
turn belongs to the conversation of the documents beside it whose names differ only in their last number (`talk/3`,
`talk/4`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from zlib import crc32

from memoryd.digest import sha256_hex
from memoryd.records import NO_TRAITS, Traits

_NAME = r"[A-Z][\w.'-]{0,30}(?: [\w.'-]{1,30}){0,2}|user|assistant|human|system|tool"
_SPEAKER = re.compile(rf"\s*[*_>#\s]{{0,4}}({_NAME})\**:\**\s")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,9})(\.[a-z]{1,5})?\Z", re.DOTALL)
MOST_PARTS = 255
_SIGNS = re.compile(r"[(){}\[\]=;<>_]")
_WORD = re.compile(r"\w+")


def traits_of(source: str, path: str, texts: Sequence[str], day: int = 0) -> list[Traits]:
    """The traits of each passage of a document at `path`, in order."""
    parts = min(len(texts), MOST_PARTS)
    thread, number, speaker = _place(source, path, texts[0]) if len(texts) == 1 else (0, 0, 0)
    return [Traits(code_share(text), parts, day, thread, number, speaker) for text in texts]


def _place(source: str, path: str, text: str) -> tuple[int, int, int]:
    """Thread, place in it and speaker of a document that is one turn; zeros for any other."""
    name, numbered = speaker_of(text), _NUMBERED.match(path)
    if not name or numbered is None or any(map(_SPEAKER.match, text.strip().splitlines()[1:])):
        return 0, 0, 0
    return _thread(source, numbered[1], numbered[3] or ""), int(numbered[2]) + 1, name_number(name)


def whole(parts: Sequence[Traits]) -> Traits:
    """The traits of a document of several passages: code and day of all of them, no place in a conversation."""
    if not parts:
        return NO_TRAITS
    return Traits(sum(part.code for part in parts) // len(parts), parts[0].parts, parts[0].day)


def speaker_of(text: str) -> str:
    """Who speaks, as a text's beginning says; '' where it is no turn."""
    found = _SPEAKER.match(text)
    return found[1] if found is not None else ""


def name_number(name: str) -> int:
    """The first name of a speaker as a number of 32 bits, 0 for none."""
    first = _WORD.search(name.casefold())
    return crc32(first[0].encode()) if first is not None else 0


def code_share(text: str) -> int:
    """Signs that code has and prose has not, in a hundred words, at most 100."""
    return min(100, 100 * len(_SIGNS.findall(text)) // max(1, len(text.split())))


def _thread(*parts: str) -> int:
    return int(sha256_hex("\0".join(parts).encode("utf-8", "backslashreplace"))[:16], 16) >> 1 or 1
