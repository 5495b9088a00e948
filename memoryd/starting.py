"""How does a command make sure that the daemon runs?

It uses the proxy's own launcher, so that sessions and commands start the daemon under the same lock.
"""

from __future__ import annotations

import select
import time

from memoryd.client import ToldError
from memoryd.runtime import RuntimePaths
from memproxy.launch import Host, Launcher, NotSent


class Patient(Host):
    """A host that never leaves: a command waits for its answer whatever happens to its standard input."""

    def orphaned(self) -> bool:
        """Never."""
        return False

    def wait(self, fd: int | None, until: float) -> bool:
        """Wait until `fd` is readable or `until` on the monotonic clock."""
        remaining = max(0.0, until - time.monotonic())
        if fd is None:
            time.sleep(remaining)
            return False
        return bool(select.select([fd], [], [], remaining)[0])


def ensure_daemon(paths: RuntimePaths) -> None:
    """Find or start the home's daemon. Raises ToldError with the code that the start failed with."""
    try:
        Launcher(paths, None, Patient()).daemon().close()
    except NotSent as error:
        told = {"message": f"{error.reason[:1].upper()}{error.reason[1:]}.", **error.data}
        told.setdefault("next_step", f"Run `memoryd --home {paths.home} doctor`.")
        raise ToldError(told) from error
