"""How is this home, in numbers and in words?

Cheap on purpose: every figure comes from a counter, an indexed count or a field that is already in memory.
"""

from __future__ import annotations

from typing import Any

from memoryd.operations import callers, indexing, scan
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import UNREAD
from memoryd.operations.reconcile import VAULT_COMMIT
from memoryd.records import VAULT_SOURCE, shown_path
from memoryd.runtime import VERSION


def status(home: Home, caller: Caller) -> dict[str, Any]:
    """Everything that memory_status and `memoryd status` show."""
    generation = home.generation
    stats = home.store.stats()
    return {
        "version": VERSION,
        "home": str(home.root),
        "scopes": callers.described(home, caller),
        "memories": home.memories.counts(None),
        "documents": home.documents.counts(),
        "passages": home.passages.count(),
        "store": {
            "packs": stats.packs,
            "chunks": stats.chunks,
            "contents": stats.contents,
            "raw_bytes": stats.raw_bytes,
            "stored_bytes": stats.stored_bytes,
        },
        "index": {
            "generation": generation.number if generation is not None else 0,
            "pending": indexing.pending(home),
            "degraded": degraded(home),
        },
        "model": home.host.status(),
        "vault": {
            "path": str(home.vault.path),
            "commit": home.catalog.meta(VAULT_COMMIT) or None,
            "faulty": faulty(home),
            "duplicate_ids": home.memories.duplicates(),
        },
        "corpora": scan.listed(home),
        "orphaned": scan.orphaned(home),
        "config": {"path": str(home.loaded.path), "differs": home.loaded.file_differs()},
        "notices": [f"{topic}: {text}" for topic, text in sorted(home.notices.items())],
    }


def degraded(home: Home) -> list[dict[str, str]]:
    """Legs that cannot open, or whose repair is under way."""
    generation = home.generation
    if generation is None:
        return [{"leg": "index", "code": "index-problem", "message": "No generation is open."}]
    found = [{"leg": leg, "code": p.code, "message": p.message} for leg, p in generation.problems.items()]
    return found + [
        {"leg": leg, "code": "index-mismatch", "message": "Counts differ: being repaired."} for leg in sorted(home.heal)
    ]


def faulty(home: Home) -> list[dict[str, str]]:
    """Vault files that do not parse, by path, with the line and what is wrong."""
    return [
        {"path": shown_path(row.path), "problem": row.problem}
        for row in home.documents.with_problems(VAULT_SOURCE)
        if row.problem and row.extractor != UNREAD
    ]


def ready(home: Home) -> list[str]:
    """Reasons why answers would be incomplete now; empty means ready."""
    reasons = [f"{one['leg']}: {one['message']}" for one in degraded(home)]
    waiting = indexing.pending(home)
    if waiting:
        reasons.append(f"{waiting} documents are not indexed yet")
    return reasons


def numbers(home: Home) -> dict[str, float]:
    """Gauges for /metrics, by name without prefix."""
    stats = home.store.stats()
    generation = home.generation
    model = home.host.status()
    return {
        "documents": home.documents.live_count(),
        "passages": home.passages.count(),
        "memories_in_force": home.memories.counts(None).get("in_force", 0),
        "store_packs": stats.packs,
        "store_raw_bytes": stats.raw_bytes,
        "store_stored_bytes": stats.stored_bytes,
        "index_generation": generation.number if generation is not None else 0,
        "index_pending": indexing.pending(home),
        "index_degraded": len(degraded(home)),
        "model_ready": 1.0 if model["state"] == "ready" else 0.0,
        "model_queued": model["queued"],
        "model_restarts": model["restarts"],
        "config_differs": 1.0 if home.loaded.file_differs() else 0.0,
    }
