"""Which scopes may this caller read and write?

A caller's project comes from the directory its session started in. Nothing here depends on a connection, so the CLI,
both protocol eras and tests resolve scopes the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from memoryd.errors import ScopeRequired, ScopeUnknown, VaultError
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import register_scope, valid_scope
from memoryd.operations.writes import commit_files
from memoryd.records import GLOBAL_SCOPE, VAULT_SOURCE, ScopeRecord
from memoryd.sources.projects import Project, cloned_from, id_ending, key_of

ALIAS_NOTICE = "vault/scopes.json"


def project(home: Home, caller: Caller) -> Project | None:
    """The project of the caller's directory, or None outside any git work tree.

    Its scope id is the alias table's, else the one that its root is known by (its remote changed), else a new one. It
    stays known after the directory is gone. A clone of something else at the place of a former project is a new one.
    """
    if caller.directory is None:
        return None
    aliases, _problem = _aliases(home)
    found = home.projects.find(caller.directory, aliases)
    if found is None or found.key in aliases or home.scopes.exists(found.scope):
        return found
    before = [record for record in home.scopes.all() if record.root == found.root]
    before = [record for record in before if _same_project(found, record, aliases)] if before else []
    return replace(found, scope=max(before, key=lambda record: record.seq).id) if before else found


def _same_project(found: Project, record: ScopeRecord, aliases: Mapping[str, str]) -> bool:
    """Whether what lies at a known root now may be the project of then; git tells what it was cloned from."""
    origin = cloned_from(found)
    if origin is None or origin == record.remote:
        return True
    return aliases.get(key_of(origin)) == record.id or record.id.endswith(f"-{id_ending(key_of(origin))}")


def _aliases(home: Home) -> tuple[dict[str, str], VaultError | None]:
    """The alias table; where it cannot be read, the last one that could, and why."""
    try:
        table = home.vault.read_aliases()
    except VaultError as error:
        home.notices[ALIAS_NOTICE] = f"{error.message} {error.next_step} Until then the last table read is in force."
        return home.vault.last_aliases or {}, error
    home.notices.pop(ALIAS_NOTICE, None)
    return table, None


def readable(home: Home, caller: Caller, scope: str | None) -> tuple[str, ...]:
    """Scopes a read sees: `global` and the caller's project, or exactly the one named.

    Raises ScopeUnknown for one that nobody knows, and for another project that is private.
    """
    own = project(home, caller)
    if scope is not None:
        _require_known(home, scope, own)
        return (scope,)
    return (GLOBAL_SCOPE,) if own is None else (GLOBAL_SCOPE, own.scope)


def writable(home: Home, caller: Caller, scope: str | None) -> str:
    """The one scope a write goes to; registers the caller's project at its first write. The caller holds no lane.

    Raises ScopeRequired outside a project without `scope`, ScopeUnknown for a scope nobody knows, VaultError kinds
    where the project's scope cannot be told, or not be kept under its new remote.
    """
    own = project(home, caller)
    if scope is None and own is None:
        raise ScopeRequired("There is no project here, so the scope of this memory must be named.")
    chosen = scope if scope is not None else own.scope if own is not None else GLOBAL_SCOPE
    _require_known(home, chosen, own)
    if own is not None and chosen == own.scope:
        _keep_scope(home, own)
        register_scope(home, ScopeRecord(id=own.scope, name=own.name, remote=own.remote, root=own.root))
    return chosen


def _keep_scope(home: Home, own: Project) -> None:
    """Note in the vault's alias table that a project whose remote changed keeps its scope id."""
    aliases, problem = _aliases(home)
    known = home.scopes.exists(own.scope)
    if problem is not None and home.vault.last_aliases is None and not known:
        raise problem  # the table may say that this project has another id
    if problem is not None or own.key in aliases or not known:
        return
    plain = home.projects.find(own.root, {})
    if plain is None or plain.scope == own.scope:
        return
    with home.vault_lane:
        write = home.vault.alias_write(own.key, own.scope)
        if write is not None:
            commit_files(home, [write], f"Keep scope {own.scope} for {own.key}")


def _require_known(home: Home, scope: str, own: Project | None) -> None:
    if scope == GLOBAL_SCOPE or (own is not None and scope == own.scope):
        return
    if not valid_scope(scope) or not home.scopes.exists(scope) or _is_private(home, scope):
        raise ScopeUnknown(f"The scope {scope[:100]!r} does not exist.", scope=scope[:100])


def _is_private(home: Home, scope: str) -> bool:
    return bool({"*", scope} & set(home.config.scopes.private))


def sources(home: Home, scopes: Collection[str]) -> set[str]:
    """The vault, and the labels of folders with anything in these scopes: others' labels are nobody else's business."""
    configured = {corpus.label for corpus in home.config.corpora if corpus.scope in scopes}
    held = {source for _, scope, source, _ in home.documents.tallies() if scope in scopes}
    return configured | held | {VAULT_SOURCE}


def described(home: Home, caller: Caller) -> dict[str, Any]:
    """The caller's scopes as status shows them."""
    own = project(home, caller)
    return {
        "project": None if own is None else {"scope": own.scope, "name": own.name, "root": own.root},
        "reads": list(readable(home, caller, None)),
        "writes": own.scope if own is not None else None,
    }
