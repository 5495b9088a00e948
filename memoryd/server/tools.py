"""What work stands behind the tools, the loops and the jobs of a daemon over one home?"""

from __future__ import annotations

import hmac
import logging
import os
import signal
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from memoryd.operations import (
    check,
    collect,
    health,
    indexing,
    optimize,
    plans,
    rebuild,
    reconcile,
    recover,
    repair,
    scan,
    secondlook,
)
from memoryd.operations.home import Caller, Home, open_home
from memoryd.runtime import RuntimePaths
from memoryd.server.commands import model_commands, search_commands, tree_commands, tree_jobs, writing_commands
from memoryd.server.lanes import Duty, JobBody, JobStore, Progress, Stop
from memoryd.server.offered import INSTRUCTIONS, agent_tools
from memoryd.server.reviews import review_commands
from memoryd.server.toolbox import Asker, Run, Toolbox
from memoryd.server.vaults import vault_commands, vault_jobs

_log = logging.getLogger(__name__)
SOCKETS = ("rpc.sock", "http.sock")
COLLECT_SECONDS = 60.0
"""How often the daemon looks whether a collection is due."""
COMPARE_SECONDS = 3.0
"""How often the daemon looks for new memories that nobody compared yet."""
IDLE_SECONDS = 1.0
"""How long the indexing loop rests when nothing is left to do; a write wakes it at once."""


class MemoryToolbox(Toolbox):
    """memoryd's own tools over one home."""

    instructions = INSTRUCTIONS

    def __init__(self, paths: RuntimePaths) -> None:
        self._root = Path(paths.home)
        self._home: Home | None = None
        self.tools = agent_tools(self._bound)
        self.commands = (
            *tree_commands(self._bound),
            *model_commands(self._bound),
            *vault_commands(self._bound),
            *review_commands(self._bound),
            *search_commands(self._bound, self.named("memory_search")),
            *writing_commands(self.tools),
        )

    @property
    def home(self) -> Home:
        """The opened home; calls come only after it is open."""
        assert self._home is not None
        return self._home

    def open(self) -> None:
        """Open and recover the home. Raises MemorydError kinds, then nothing stays open."""
        home = open_home(self._root, environment=os.environ)
        try:
            recover.recover(home)
            if home.config.model.warm_up:
                home.host.warm()
        except BaseException:  # let go of what was taken, then raised on
            home.close()
            raise
        logging.getLogger().setLevel(home.config.log_level)
        self._home = home

    def close(self) -> None:
        """Close the home."""
        self.home.close()

    @property
    def listen(self) -> str | None:
        """What `health.listen` says."""
        return self.home.config.health.listen

    def seal_key(self) -> bytes:
        """A key of its own for state that travels through clients, derived from the home's secret."""
        secret = plans.seal_key(self.home.root, self.home.files)
        return hmac.new(secret, b"memoryd request state v1", sha256).digest()

    def ready(self) -> list[str]:
        """Reasons why answers would be incomplete now."""
        return health.ready(self.home)

    def numbers(self) -> dict[str, float]:
        """Gauges of the home."""
        return health.numbers(self.home)

    def status(self) -> dict[str, Any]:
        """The home as somebody outside any project sees it."""
        return health.status(self.home, Caller())

    def duties(self) -> tuple[Duty, ...]:
        """Indexes follow writes at once; the vault is looked at every `vault.poll_seconds`."""
        home = self.home

        def index(stop: Stop) -> float:
            return 0.0 if indexing.catch_up(home, stop) else IDLE_SECONDS

        served: set[str] = set()

        def follow_vault(_stop: Stop) -> float:
            there = {name for name in SOCKETS if (home.root / "run" / name).exists()}
            lost = home.lost_views() + sorted(served - there)
            served.update(there)
            if lost:
                # views are disposable: a fresh start makes them again, and sessions go on with it by themselves
                _log.error("%s were removed under a running daemon: stopping, the next start makes them", lost)
                os.kill(os.getpid(), signal.SIGTERM)
                return home.config.vault.poll_seconds
            reconcile.reconcile_vault(home)
            return home.config.vault.poll_seconds

        def collect_in_time(_stop: Stop) -> float:
            if collect.is_due(home) and self.desk is not None:
                self.desk.submit("gc", {})
            return COLLECT_SECONDS

        def compare(stop: Stop) -> float:
            return 0.0 if secondlook.look_again(home, stop) else COMPARE_SECONDS

        duties = (Duty("indexing", index, wake=home.work), Duty("vault", follow_vault), Duty("comparing", compare))
        return (*duties, Duty("gc", collect_in_time)) if home.config.gc.every_hours else duties

    def jobs(self) -> tuple[Mapping[str, JobBody], JobStore]:
        """Long work by kind."""
        home = self.home

        def scan_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            return scan.scan_corpora(
                home,
                args.get("labels"),
                drop=args.get("drop"),
                accept_removals=bool(args.get("accept_removals")),
                dry_run=bool(args.get("dry_run")),
                full=bool(args.get("full")),
                progress=progress,
                stop=stop,
            )

        def rebuild_job(_args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            return rebuild.rebuild(home, progress=progress, stop=stop)

        def check_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            wanted = {"read_data": bool(args.get("read_data")), "quick": bool(args.get("quick"))}
            return check.check(home, **wanted, progress=progress, stop=stop)

        def gc_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            only_count = bool(args.get("dry_run"))
            now = only_count and bool(args.get("now"))  # without grace a person alone collects; counting is harmless
            return collect.gc(home, dry_run=only_count, now=now, progress=progress, stop=stop)

        def repair_job(_args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            return repair.repair(home, progress=progress, stop=stop)  # the plan: only a person at a terminal applies it

        def optimize_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
            return optimize.optimize(home, everything=bool(args.get("everything")), progress=progress, stop=stop)

        bodies = {"corpus-scan": scan_job, "rebuild": rebuild_job, "check": check_job, "gc": gc_job}
        bodies |= {"optimize": optimize_job, "repair": repair_job}
        return {**bodies, **tree_jobs(home), **vault_jobs(home)}, home.jobs

    def _bound(self, operation: Callable[..., dict[str, Any]]) -> Run:
        def run(asker: Asker, given: dict[str, Any]) -> dict[str, Any]:
            return operation(self.home, Caller(asker.directory, asker.name), **given)

        return run
