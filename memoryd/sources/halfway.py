"""What has a person under way in a repository, so that a commit made now would disturb it or be lost?"""

from __future__ import annotations

import os

from memoryd.sources.objects import Places

_MARKS = (
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply/applying", "am"),
    ("rebase-apply", "rebase"),
    ("BISECT_LOG", "bisect"),
    ("sequencer", "cherry-pick or revert"),
)
MESSAGES = ("MERGE_MSG", "SQUASH_MSG")
"""Messages that a person's next commit would begin with; git removes them after any commit."""


def under_way(places: Places) -> str | None:
    """The git command that waits to be finished (`merge`, `rebase` ...); None where there is none.

    git itself would commit beside a revert, and thereby forget that the revert was under way.
    """
    for mark, name in _MARKS:
        if os.path.lexists(places.own / mark):
            return name
    return None


def prepared_messages(places: Places) -> dict[str, bytes]:
    """What a person, or a command of theirs, has put down for the next commit's message."""
    found = {}
    for name in MESSAGES:
        try:
            found[name] = (places.own / name).read_bytes()
        except FileNotFoundError:
            continue
    return found
