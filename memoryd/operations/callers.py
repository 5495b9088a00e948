"""Which scopes may this caller read and write?

A caller's project comes from the directory its session started in. Nothing here depends on a connection, so the CLI,
both protocol eras and tests resolve scopes the same way.
"""

from __future__ import annotations

from typing import Any

from memoryd.errors import ScopeRequired, ScopeUnknown
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import register_scope, valid_scope
from memoryd.records import GLOBAL_SCOPE, ScopeRecord
from memoryd.sources.projects import Project, project_of


def project(home: Home, caller: Caller) -> Project | None:
    """The project of the caller's directory, or None outside any git work tree."""
    if caller.directory is None:
        return None
    return project_of(caller.directory, home.vault.read_aliases())


def readable(home: Home, caller: Caller, scope: str | None) -> tuple[str, ...]:
    """Scopes a read sees: `global` and the caller's project, or exactly the one named. Raises ScopeUnknown."""
    own = project(home, caller)
    if scope is not None:
        _require_known(home, scope, own)
        return (scope,)
    return (GLOBAL_SCOPE,) if own is None else (GLOBAL_SCOPE, own.scope)


def writable(home: Home, caller: Caller, scope: str | None) -> str:
    """The one scope a write goes to; registers the caller's project at its first write.

    Raises ScopeRequired outside a project without `scope`, ScopeUnknown for a scope nobody knows.
    """
    own = project(home, caller)
    if scope is None and own is None:
        raise ScopeRequired("There is no project here, so the scope of this memory must be named.")
    chosen = scope if scope is not None else own.scope if own is not None else GLOBAL_SCOPE
    _require_known(home, chosen, own)
    if own is not None and chosen == own.scope:
        register_scope(home, ScopeRecord(id=own.scope, name=own.name, remote=own.remote, root=own.root))
    return chosen


def _require_known(home: Home, scope: str, own: Project | None) -> None:
    if scope == GLOBAL_SCOPE or (own is not None and scope == own.scope):
        return
    if not valid_scope(scope) or not home.scopes.exists(scope):
        raise ScopeUnknown(f"The scope {scope[:100]!r} does not exist.", scope=scope[:100])


def described(home: Home, caller: Caller) -> dict[str, Any]:
    """The caller's scopes as status shows them."""
    own = project(home, caller)
    return {
        "project": None if own is None else {"scope": own.scope, "name": own.name, "root": own.root},
        "reads": list(readable(home, caller, None)),
        "writes": own.scope if own is not None else None,
    }
