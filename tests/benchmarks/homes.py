"""What does every benchmark in one process open?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memoryd.operations.home import Home, open_home
from memoryd.operations.owner import own_home
from memoryd.operations.recover import recover
from memoryd.server.run import SWITCH_SECONDS


@contextmanager
def fresh_home(root: Path) -> Iterator[Home]:
    """A new home, opened as the daemon opens it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    lock = own_home(root)
    home = open_home(root, environment={})
    try:
        recover(home)
        yield home
    finally:
        home.close()
        lock.release()
