"""Does a line tell how something is to be done, rather than what is the case?"""

from __future__ import annotations

import re

from memoryd.extract.wording import words

_MODAL = frozenset(
    (
        *("always", "never", "must", "mustnt", "should", "shouldnt", "shall", "dont", "prefer", "avoid", "only"),
        *("required", "forbidden", "mandatory", "instead", "ensure", "cannot"),
    )
)
_VERBS = frozenset(
    (
        *("use", "add", "keep", "write", "run", "put", "make", "name", "start", "end", "begin", "set", "call", "ask"),
        *(
            "check",
            "test",
            "commit",
            "push",
            "merge",
            "deploy",
            "import",
            "include",
            "return",
            "raise",
            "log",
            "document",
        ),
        *("format", "lint", "pin", "install", "update", "remove", "delete", "read", "store", "send", "pass", "take"),
        *("do", "let", "limit", "prefix", "suffix", "indent", "wrap", "split", "group", "sort", "review", "squash"),
        *("rebase", "sign", "tag", "release", "rotate", "validate", "catch", "handle", "treat", "follow", "stick"),
        *("create", "define", "declare", "annotate", "type", "mock", "cover", "work", "communicate", "go", "stay"),
    )
)
_LEADING = re.compile(r"^[\s#>*\-`~\d.)]+")


def is_order(line: str) -> bool:
    """Whether a line reads as a rule for whoever works: by its first word, or by what it says must be."""
    tokens = words(_LEADING.sub("", line)).tokens
    if not tokens or line.rstrip().endswith("?"):
        return False
    return tokens[0] in _VERBS or tokens[0] in _MODAL or any(token in _MODAL for token in tokens[:6])
