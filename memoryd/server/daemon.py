"""Who may serve a home, and what does a daemon need before anything heavy is loaded?

The lock comes first. Only its holder imports the rest, touches the sockets and opens the home.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import resource
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from memoryd.errors import HomeBusy, HomeError, MemorydError
from memoryd.operations.owner import own_home
from memoryd.runtime import RuntimePaths, connect
from memoryd.server.detach import Report, run_detached

if TYPE_CHECKING:
    from memoryd.server.toolbox import Toolbox

MakeToolbox = Callable[[RuntimePaths], "Toolbox"]
SUCCESSOR_SECONDS = 10.0
"""How long a start waits for a daemon that is on its way out (or in) before it gives up."""
LOG_BYTES = 4 << 20
LOG_FILES = 3
_log = logging.getLogger(__name__)


def serve(home: str, *, detach: bool = False, toolbox: MakeToolbox | None = None) -> int:
    """Run the daemon of a home; the exit code. With `detach` it goes to the background and this returns once ready.

    A home that is served already counts as success. `toolbox` makes what is served: memoryd's own tools by default.
    """
    paths = RuntimePaths(home)
    make = toolbox or _own_toolbox
    if detach:
        return run_detached(lambda report: _own_and_run(paths, make, report), Path(paths.log_file))
    code = _own_and_run(paths, make, Report(None))
    sys.stderr.flush()
    os._exit(code)  # worker threads of cut-off work must not keep an ended daemon alive


def _own_and_run(paths: RuntimePaths, make: MakeToolbox, report: Report) -> int:
    try:
        lock = _own(paths)
        if lock is None:
            _log.warning("a daemon already serves %s", paths.home)
            report.ready(already=True)
            return 0
        _prepare(paths, detached=report.waited_for)
        from memoryd.server import run  # everything heavy comes with this line

        return run.main(paths, make(paths), report)
    except MemorydError as error:
        _log.error("%s (%s) %s", error.message, error.code, error.next_step)
        report.failed(error.to_dict())
        return 1
    except Exception as error:  # noqa: BLE001 - the border of the process: its end must not be silent
        _log.exception("the daemon failed")
        report.failed({"code": "internal-error", "message": f"{type(error).__name__}: {error}"})
        return 1
    finally:
        logging.shutdown()


def _own(paths: RuntimePaths) -> object | None:
    """The home's lock, or None where a daemon already answers. Raises HomeBusy, HomeError."""
    until = time.monotonic() + SUCCESSOR_SECONDS
    while True:
        try:
            return own_home(Path(paths.home))
        except HomeBusy:
            if _answers(paths):
                return None
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _answers(paths: RuntimePaths) -> bool:
    try:
        connect(paths.rpc_socket, 1.0).close()
    except OSError:
        return False
    return True


def _prepare(paths: RuntimePaths, *, detached: bool) -> None:
    """Log file, crash traces, as many descriptors as the system grants."""
    try:
        Path(paths.log_file).parent.mkdir(mode=0o700, exist_ok=True)
        file = RotatingFileHandler(paths.log_file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    except OSError as error:
        raise HomeError(f"{paths.log_file} cannot be written: {error.strerror}.", path=paths.log_file) from error
    handlers: list[logging.Handler] = [file] if detached else [file, logging.StreamHandler()]
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, handlers=handlers, format=form)
    for noisy in ("mcp", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    faulthandler.enable()
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _own_toolbox(paths: RuntimePaths) -> Toolbox:
    from memoryd.server.tools import MemoryToolbox

    return MemoryToolbox(paths)
