"""What may a caller pass, and how is it refused by name?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from memoryd.errors import BadCharacters, BlankContent, ContentTooLarge, InvalidInput
from memoryd.sources.markers import conflict_line

TITLE_LIMIT = 120
TAG_LIMIT = 20
SHORT_LIMIT = 200
REASON_LIMIT = 500


def checked_content(content: str, limit: int) -> str:
    """The content as given, or a typed refusal: blank, over the limit, NUL, unpaired surrogates, a merge's marks (a
    file that holds them is told as one that a person has to mend)."""
    checked_characters("content", content)
    if not content.strip():
        raise BlankContent("`content` is blank.", parameter="content")
    size = len(content.encode())
    if size > limit:
        raise ContentTooLarge(f"`content` has {size} bytes; the limit is {limit}.", size=size, limit=limit)
    if (line := conflict_line(content.encode())) is not None:
        raise InvalidInput(
            f"`content` holds the conflict marks of a merge, from its line {line}; nothing was written.",
            next_step="Keep the side that holds; text about such marks goes into a fenced code block.",
            parameter="content",
            line=line,
        )
    return content


def checked_characters(parameter: str, text: str) -> None:
    """Refuse what no file, index or JSON reader can hold."""
    if "\0" in text:
        raise BadCharacters(f"`{parameter}` holds a NUL character.", parameter=parameter)
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadCharacters(f"`{parameter}` holds an unpaired surrogate.", parameter=parameter)


def checked_line(parameter: str, text: str | None, limit: int) -> str | None:
    """One trimmed line of at most `limit` characters; blank counts as absent."""
    if text is None or not text.strip():
        return None
    checked_characters(parameter, text)
    line = " ".join(text.split())
    if any(ord(character) < 32 or ord(character) == 127 for character in line):
        raise BadCharacters(f"`{parameter}` holds a control character.", parameter=parameter)
    if len(line) > limit:
        message = f"`{parameter}` has {len(line)} characters; the limit is {limit}."
        raise ContentTooLarge(message, next_step=f"Shorten `{parameter}`; nothing was written.", limit=limit)
    return line


def checked_tags(tags: Sequence[str] | None) -> tuple[str, ...]:
    """Distinct tags in the given order."""
    if tags is not None and len(tags) > TAG_LIMIT:
        raise InvalidInput(f"`tags` holds {len(tags)} tags; the limit is {TAG_LIMIT}.", parameter="tags")
    cleaned = [checked_line("tags", tag, 64) for tag in tags or ()]
    return tuple(dict.fromkeys(tag for tag in cleaned if tag is not None))


def derived_title(content: str) -> str:
    """The first line that says something, without Markdown marks, cut at a word."""
    for line in content.splitlines():
        words = line.strip().lstrip("#>*-`~ ").rstrip("`").split()
        if words:
            break
    else:
        words = ["note"]
    title = words[0][:80]
    for word in words[1:]:
        if len(title) + 1 + len(word) > 80:
            break
        title += f" {word}"
    return "".join(character for character in title if ord(character) >= 32 and ord(character) != 127) or "note"


def read_given(path: Path, step: str) -> str:
    """The text of a file that a person named. Raises InvalidInput; `step` is what they may do then."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.", next_step=step) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8: {error.reason} at byte {error.start}.", next_step=step) from error
