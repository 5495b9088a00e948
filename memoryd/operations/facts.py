"""What is known of an entry besides its content: how it was read, how far the indexes are, what stood there before?"""

from __future__ import annotations

from typing import Any

from memoryd.catalog.documents import DocumentRow
from memoryd.errors import NotFound, StoreError
from memoryd.operations import revisions
from memoryd.operations.home import Home
from memoryd.operations.ingest import UNREAD
from memoryd.operations.signals import signals

HISTORY_MOST = 100
"""States of a place that one answer shows: the newest ones."""
Scopes = tuple[str, ...]


def facts(home: Home, scopes: Scopes, row: DocumentRow, address: str) -> dict[str, Any]:
    """Everything about one content of a document that the caller may see."""
    memory = home.memories.by_document(row.document_id)
    told: dict[str, Any] = {"exec": row.exec} if memory is not None else {"tags": list(row.tags), "exec": row.exec}
    told |= _stored(home, row, address)
    told |= _read(home, row) if row.address == address else _former()
    if memory is not None:
        told["revisions"] = revisions.shown(home, scopes, memory)
        told |= signals(home, memory.fields.fact, scopes)
    history = home.documents.history(row.document_id, scopes)
    shown = [
        {"seq": h.seq, "event": h.event, "address": h.address, "size": h.size, "observed": h.observed}
        for h in history[-HISTORY_MOST:]
    ]
    return {**told, "history": shown, "history_count": len(history)}


def _stored(home: Home, row: DocumentRow, address: str) -> dict[str, Any]:
    """Size and chunks of the content; why it cannot be read where it cannot."""
    try:
        chunks = home.store.layout(address)
    except (NotFound, StoreError) as error:
        size = row.size if row.address == address else home.store.size(address)
        return {"size": size, "stored": {"chunks": 0, "problem": error.message}}
    return {"size": sum(length for _digest, length in chunks), "stored": {"chunks": len(chunks), "problem": None}}


def _former() -> dict[str, Any]:
    reason = "This is a former content: only what its document holds now is extracted and indexed."
    return {
        "passages": 0,
        "extraction": {"status": "none", "extractor": "", "encoding": "", "problem": reason},
        "embedding": {"status": "none", "embedded": 0, "pending": 0, "poisoned": 0, "reason": reason},
        "indexed": {"lexical": False, "vectors": False},
    }


def _read(home: Home, row: DocumentRow) -> dict[str, Any]:
    """Extraction and indexes of the content that the document holds now."""
    passages = home.passages.of_document(row.document_id)
    poisoned = home.host.poisoned()
    lost = sum(passage.text_sha256 in poisoned for passage in passages)
    mark = home.generation.watermark if home.generation is not None else None
    return {
        "passages": len(passages),
        "extraction": {
            "status": _extraction(row),
            "extractor": row.extractor,
            "encoding": row.encoding,
            "problem": row.problem,
        },
        "embedding": _embedding(home, row, len(passages), lost),
        "indexed": {
            "lexical": mark is not None and row.seq <= mark.lexical_seq,
            "vectors": mark is not None and row.seq <= mark.vector_seq,
        },
    }


def _extraction(row: DocumentRow) -> str:
    """`extracted`; `partial`: with signs replaced; `faulty`: no memory, its words alone; `binary`; `unread`."""
    if row.extractor == UNREAD:
        return "unread"
    if row.encoding == "binary":
        return "binary"
    if row.problem is None:
        return "extracted"
    return "faulty" if row.kind == "memory" else "partial"


def _embedding(home: Home, row: DocumentRow, passages: int, poisoned: int) -> dict[str, Any]:
    """How many passages have a vector, wait for one, or ended the model's process."""
    waiting = _waiting(home, row) if passages > poisoned else None
    pending = passages - poisoned if waiting is not None else 0
    embedded = passages - poisoned - pending
    reason = waiting
    if waiting is None and poisoned:
        reason = f"{poisoned} of {passages} passages ended the model's process twice; they are found by words."
    status = "pending" if pending else "poisoned" if poisoned else "embedded" if passages else "none"
    return {"status": status, "embedded": embedded, "pending": pending, "poisoned": poisoned, "reason": reason}


def _waiting(home: Home, row: DocumentRow) -> str | None:
    """Why the vectors of a document are not there yet; None where they are."""
    generation = home.generation
    if generation is None:
        return "No index is open."
    if generation.vectors is None:
        problem = generation.problems.get("vectors")
        return problem.message if problem is not None else "The vector index is not open."
    if row.seq > generation.watermark.vector_seq:
        model = home.host.status()
        failed = f" The model is not ready: {model['last_error']}" if model["last_error"] else ""
        return f"The vector index has not come to it yet.{failed}"
    if row.address in home.store.damaged:
        return "Its content is damaged: what is embedded of it is not known."
    return None
