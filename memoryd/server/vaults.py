"""What does the command line ask of a daemon about the vault as a whole: how it stands, and to share it?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memoryd.operations import vaultcare
from memoryd.operations.home import Home
from memoryd.server.commands import Bind
from memoryd.server.lanes import JobBody, Progress, Stop
from memoryd.server.toolbox import Tool


def vault_commands(bind: Bind) -> tuple[Tool, ...]:
    """The short one; `bind` gives an operation the home and its caller."""
    return (Tool("vault_status", "Vault", "How the vault stands.", {}, bind(vaultcare.status), read_only=True),)


def vault_jobs(home: Home) -> Mapping[str, JobBody]:
    """What waits for a network."""

    def sync_job(_args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
        return vaultcare.sync(home, progress=progress, stop=stop)

    def connect_job(args: dict[str, Any], progress: Progress, stop: Stop) -> dict[str, Any]:
        return vaultcare.connect(home, str(args.get("url", "")), progress=progress, stop=stop)

    return {"vault-sync": sync_job, "vault-connect": connect_job}
