"""Is every error listed in the tree, with a code of its own and a next step?"""

from __future__ import annotations

import re

from memoryd import errors


def kinds(root=errors.MemorydError):
    found = []
    for kind in root.__subclasses__():
        if kind.__module__ == "memoryd.errors":
            found += [kind, *kinds(kind)]
    return found


def test_the_tree_in_the_docstring_is_the_tree_in_the_code():
    listed = dict(re.findall(r"^ +(\w+) +([a-z-]+)$", errors.__doc__ or "", re.M))
    assert listed == {kind.__name__: kind.code for kind in kinds()}


def test_codes_are_unique_and_every_error_says_what_to_do():
    codes = [kind.code for kind in kinds()]
    assert len(codes) == len(set(codes))
    for kind in kinds():
        shown = kind("It broke.", path="/x").to_dict()
        assert shown["message"] == "It broke."
        assert shown["next_step"].endswith(".")
        assert shown["details"] == {"path": "/x"}


def test_a_raiser_may_give_a_better_next_step():
    assert errors.NotFound("No.", next_step="Do this.").to_dict() == {
        "code": "not-found",
        "message": "No.",
        "next_step": "Do this.",
    }
