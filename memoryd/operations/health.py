"""How is this home, in numbers and in words?

Cheap on purpose: every figure comes from a counter, an indexed count or a field that is already in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from memoryd.catalog.documents import DocumentRow
from memoryd.digest import PREFIX
from memoryd.operations import answers, callers, indexing, scan
from memoryd.operations.home import Caller, Home
from memoryd.operations.ingest import UNREAD, valid_scope
from memoryd.operations.reconcile import VAULT_COMMIT
from memoryd.operations.review import counts
from memoryd.records import GLOBAL_SCOPE, VAULT_SOURCE, shown_path
from memoryd.runtime import VERSION

T = TypeVar("T")
Scopes = tuple[str, ...]


def status(home: Home, caller: Caller) -> dict[str, Any]:
    """Everything that memory_status and `memoryd status` show.

    What belongs to scopes that the caller does not read is only counted, under `elsewhere`; scope ids are no secret.
    """
    generation = home.generation
    stats = home.store.stats()
    reads = callers.readable(home, caller, None)
    sources = callers.sources(home, reads)
    known = home.documents.counts()
    faults, other_faults = _parted(faulty(home), lambda row: row.scope in reads)
    twins, other_twins = _parted(home.memories.duplicates(), lambda one: home.memories.get(one, reads) is not None)
    corpora, other_corpora = _parted(scan.listed(home), lambda one: one["scope"] in reads)
    orphans, other_orphans = _parted(scan.orphaned(home), lambda one: one["label"] in sources)
    notices, other_notices = _parted(sorted(dict(home.notices).items()), lambda one: _concerns(home, one[0], reads))
    return {
        "version": VERSION,
        "home": str(home.root),
        "scopes": callers.described(home, caller),
        "memories": home.memories.counts(None),
        "documents": {**known, "source": {k: n for k, n in known["source"].items() if k in sources}},
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
            "vectors": (generation.identity.place if generation is not None else "") or "files",
            "pending": indexing.pending(home),
            "degraded": degraded(home),
        },
        "model": home.host.status(),
        "search": searches(home),
        "vault": {
            "path": str(home.vault.path),
            "commit": home.catalog.meta(VAULT_COMMIT) or None,
            "faulty": [{"path": shown_path(row.path), "problem": row.problem} for row in faults],
            "duplicate_ids": twins,
            "duplicates": [{"id": one, "paths": [*map(shown_path, home.memories.copies(one, reads))]} for one in twins],
        },
        "review": counts(home, reads),
        "corpora": corpora,
        "orphaned": orphans,
        "config": {"path": str(home.loaded.path), "differs": home.loaded.file_differs()},
        "notices": [f"{topic}: {text}" for topic, text in notices],
        "elsewhere": {
            "documents": sum(n for k, n in known["source"].items() if k not in sources),
            "faulty": other_faults,
            "duplicate_ids": other_twins,
            "corpora": other_corpora,
            "orphaned": other_orphans,
            "notices": other_notices,
        },
    }


def searches(home: Home) -> dict[str, Any]:
    """How many answers and vectors of queries are kept, and how often one was there when it was asked for."""
    answers = {"kept": len(home.kept), "hits": home.kept.hits, "misses": home.kept.misses}
    return {"answers": answers, "query_vectors": home.host.queries()}


def _parted(found: Iterable[T], visible: Callable[[T], bool]) -> tuple[list[T], int]:
    """What may be shown, and how much may not."""
    everything = list(found)
    shown = [one for one in everything if visible(one)]
    return shown, len(everything) - len(shown)


def _concerns(home: Home, topic: str, reads: Scopes) -> bool:
    """Whether a notice is about something in these scopes, or about the home as a whole."""
    if topic.startswith(PREFIX):
        return bool(home.documents.ever_at(topic, reads))
    place, _, rest = topic.partition("/")
    if place == "vault" and rest:
        row = home.documents.by_path(VAULT_SOURCE, rest.encode())
        folder = rest.partition("/")[0]
        return (row.scope if row is not None else folder if valid_scope(folder) else GLOBAL_SCOPE) in reads
    if place == "corpus" and rest:
        return {corpus.label: corpus.scope for corpus in home.config.corpora}.get(rest, GLOBAL_SCOPE) in reads
    return True


def degraded(home: Home) -> list[dict[str, str]]:
    """Legs that cannot open, or whose repair is under way."""
    generation = home.generation
    if generation is None:
        return [{"leg": "index", "code": "index-problem", "message": "No generation is open."}]
    if generation.identity.place:
        generation.mismatches()  # a server comes and goes without a call that would notice
    found = [{"leg": leg, "code": p.code, "message": p.message} for leg, p in generation.problems.items()]
    found += [{"leg": "index", "code": p.code, "message": p.message} for p in indexing.doubts(home, generation)]
    return found + [
        {"leg": leg, "code": "index-mismatch", "message": "Counts differ: being repaired."} for leg in sorted(home.heal)
    ]


def faulty(home: Home) -> list[DocumentRow]:
    """Vault files that do not parse; `problem` names the line and what is wrong."""
    return [row for row in home.documents.with_problems(VAULT_SOURCE) if row.problem and row.extractor != UNREAD]


def ready(home: Home) -> list[str]:
    """Reasons why answers would be incomplete now; empty means ready."""
    reasons = [f"{one['leg']}: {one['message']}" for one in degraded(home)]
    pending = indexing.pending(home)
    if pending:
        reasons.append(answers.waiting(pending))
    return reasons


def numbers(home: Home) -> dict[str, float]:
    """Gauges for /metrics, by name without prefix."""
    stats = home.store.stats()
    generation = home.generation
    model = home.host.status()
    kept = {f"{what}_{name}": n for what, counts in searches(home).items() for name, n in counts.items()}
    return {
        **{f"search_{name}": number for name, number in kept.items()},
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
