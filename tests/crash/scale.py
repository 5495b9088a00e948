"""Is this the quick run or the long one (`make test-crash`)?"""

from __future__ import annotations

import os

LONG = os.environ.get("CRASH_TESTS") == "long"


def scaled(quick: int, long: int) -> int:
    return long if LONG else quick
