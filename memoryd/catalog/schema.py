"""Which tables does catalog.db hold, and by which numbered steps did it get them?

Step N of `CATALOG` takes a file from `PRAGMA user_version` N-1 to N; a step that was released is never edited. The
counts that every search compares (live documents, passages) are kept by triggers, so that reading them costs one row.
Lists of strings lie in a column as JSON.
"""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Sequence

CATALOG: tuple[str, ...] = (
    """
-- Step 1: the view of documents, memories and passages, plus the jobs of the daemon.
--   meta       what this view says about itself, e.g. up to which record it was filled
--   scopes     the newest `scope` record of each project
--   documents  the current state of each (source, path); address NULL = gone, the row stays
--   events     its history, one row a `document` record; seq is store-wide
--   passages   where the ranked pieces of a live document stand; their text is cut from the stored bytes
--   memories   the frontmatter of each live memory file, one row a file (two files may hold one id);
--              created_at = `created` as microseconds since 1970 in UTC, NULL where it is no time
--   tallies    live documents by (source, scope, kind); totals: live passages
--   jobs       long work of the daemon and how it ended
-- A document whose content changes loses its passages and its memory row at once: whoever applies an event then
-- writes the new ones in the same transaction.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE scopes (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, remote TEXT, root TEXT, seq INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE documents (
  number INTEGER PRIMARY KEY,
  document_id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  path BLOB NOT NULL,
  scope TEXT NOT NULL,
  kind TEXT NOT NULL,
  type TEXT NOT NULL,
  status TEXT NOT NULL,
  address TEXT,
  size INTEGER NOT NULL,
  exec INTEGER NOT NULL,
  title TEXT NOT NULL,
  tags TEXT NOT NULL,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  extractor TEXT NOT NULL,
  encoding TEXT NOT NULL,
  problem TEXT,
  observed TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_by_seq ON documents (seq);
CREATE INDEX documents_live ON documents (source, path) WHERE address IS NOT NULL;
CREATE INDEX documents_with_problem ON documents (source, path) WHERE problem IS NOT NULL AND address IS NOT NULL;
CREATE INDEX documents_by_address ON documents (address) WHERE address IS NOT NULL;

CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES documents (number),
  event TEXT NOT NULL,
  scope TEXT NOT NULL,
  address TEXT,
  size INTEGER NOT NULL,
  observed TEXT NOT NULL
);
CREATE INDEX events_by_document ON events (document, seq);
CREATE INDEX events_by_address ON events (address) WHERE address IS NOT NULL;

CREATE TABLE passages (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  document INTEGER NOT NULL REFERENCES documents (number),
  ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL,
  end INTEGER NOT NULL,
  line_start INTEGER NOT NULL,
  line_end INTEGER NOT NULL,
  heading TEXT NOT NULL,
  symbol TEXT NOT NULL,
  text_sha256 TEXT NOT NULL
);
CREATE UNIQUE INDEX passages_by_document ON passages (document, ordinal);

CREATE TABLE memories (
  document INTEGER PRIMARY KEY REFERENCES documents (number),
  id TEXT NOT NULL,
  fact TEXT NOT NULL,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  title TEXT NOT NULL,
  scope TEXT NOT NULL,
  status TEXT NOT NULL,
  created TEXT NOT NULL,
  created_at INTEGER,
  updated TEXT NOT NULL,
  tags TEXT NOT NULL,
  key TEXT,
  supersedes TEXT,
  superseded_by TEXT,
  archive_reason TEXT,
  citations TEXT NOT NULL,
  address TEXT NOT NULL,
  path BLOB NOT NULL
);
CREATE INDEX memories_by_id ON memories (id);
CREATE INDEX memories_by_fact ON memories (fact, seq);
CREATE INDEX memories_by_key ON memories (scope, key) WHERE key IS NOT NULL;
CREATE INDEX memories_by_age ON memories (created_at DESC, id);

CREATE TABLE tallies (
  source TEXT NOT NULL, scope TEXT NOT NULL, kind TEXT NOT NULL, documents INTEGER NOT NULL,
  PRIMARY KEY (source, scope, kind)
) WITHOUT ROWID;
CREATE TABLE totals (name TEXT PRIMARY KEY, amount INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('passages', 0);

CREATE TRIGGER document_added AFTER INSERT ON documents WHEN NEW.address IS NOT NULL BEGIN
  INSERT INTO tallies VALUES (NEW.source, NEW.scope, NEW.kind, 1)
    ON CONFLICT (source, scope, kind) DO UPDATE SET documents = documents + 1;
END;
CREATE TRIGGER document_moved AFTER UPDATE OF address, scope, kind ON documents
WHEN (OLD.address IS NULL) <> (NEW.address IS NULL) OR OLD.scope <> NEW.scope OR OLD.kind <> NEW.kind BEGIN
  UPDATE tallies SET documents = documents - 1
    WHERE OLD.address IS NOT NULL AND source = OLD.source AND scope = OLD.scope AND kind = OLD.kind;
  INSERT INTO tallies SELECT NEW.source, NEW.scope, NEW.kind, 1 WHERE NEW.address IS NOT NULL
    ON CONFLICT (source, scope, kind) DO UPDATE SET documents = documents + 1;
END;
CREATE TRIGGER document_changed AFTER UPDATE OF address ON documents WHEN OLD.address IS NOT NEW.address BEGIN
  DELETE FROM passages WHERE document = NEW.number;
  DELETE FROM memories WHERE document = NEW.number;
END;
CREATE TRIGGER passage_added AFTER INSERT ON passages BEGIN
  UPDATE totals SET amount = amount + 1 WHERE name = 'passages';
END;
CREATE TRIGGER passage_removed AFTER DELETE ON passages BEGIN
  UPDATE totals SET amount = amount - 1 WHERE name = 'passages';
END;

CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  args TEXT NOT NULL,
  state TEXT NOT NULL,
  done INTEGER NOT NULL DEFAULT 0,
  total INTEGER NOT NULL DEFAULT 0,
  note TEXT NOT NULL DEFAULT '',
  result TEXT,
  started REAL NOT NULL,
  updated REAL NOT NULL,
  finished REAL
);
CREATE INDEX jobs_running ON jobs (state) WHERE state = 'running';
""",
    """
-- Step 2: how many documents have more than one passage, that is, a second one (totals.long_documents).
INSERT INTO totals SELECT 'long_documents', count(*) FROM passages WHERE ordinal = 1;
CREATE TRIGGER second_passage_added AFTER INSERT ON passages WHEN NEW.ordinal = 1 BEGIN
  UPDATE totals SET amount = amount + 1 WHERE name = 'long_documents';
END;
CREATE TRIGGER second_passage_removed AFTER DELETE ON passages WHEN OLD.ordinal = 1 BEGIN
  UPDATE totals SET amount = amount - 1 WHERE name = 'long_documents';
END;
""",
    """
-- Step 3: the states of directories and corpora that were kept, one row a `snapshot` record.
CREATE TABLE snapshots (
  seq INTEGER PRIMARY KEY,
  label TEXT NOT NULL,
  source TEXT NOT NULL,
  scope TEXT NOT NULL,
  root TEXT NOT NULL,
  created TEXT NOT NULL,
  files INTEGER NOT NULL,
  size INTEGER NOT NULL,
  left_out INTEGER NOT NULL
);
CREATE INDEX snapshots_by_label ON snapshots (label, seq);
CREATE INDEX snapshots_by_source ON snapshots (source, seq);
CREATE INDEX snapshots_by_root ON snapshots (root, seq);
""",
)

DERIVED = ("scopes", "documents", "events", "passages", "memories", "snapshots")
"""Tables that the records fill, parents first; the counts beside them follow by their triggers."""

STATE: tuple[str, ...] = (
    """
-- Step 1: what no pack and no vault file can tell again.
--   intents  writes of memory files that were begun; several rows of one id are one write
--   recalls  how often, and when last, a fact was handed out
--   answers  what a redeemed confirm token was answered, so that the second redemption gets the same
CREATE TABLE intents (
  id TEXT NOT NULL, path BLOB NOT NULL, sha256 TEXT NOT NULL, parent TEXT, pid INTEGER NOT NULL, started REAL NOT NULL,
  PRIMARY KEY (id, path)
) WITHOUT ROWID;
CREATE TABLE recalls (fact TEXT PRIMARY KEY, amount INTEGER NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE answers (token TEXT PRIMARY KEY, answer TEXT NOT NULL, given REAL NOT NULL) WITHOUT ROWID;
""",
    """
-- Step 2: pairs of memories that were found to say the same or to contradict each other, until a person or agent
-- settles it. A pair is filed once a kind, in whichever order.
CREATE TABLE findings (
  kind TEXT NOT NULL, memory TEXT NOT NULL, other TEXT NOT NULL, score REAL, reason TEXT NOT NULL,
  created REAL NOT NULL, settled REAL
);
CREATE UNIQUE INDEX findings_by_pair ON findings (kind, min(memory, other), max(memory, other));
CREATE INDEX findings_open ON findings (created) WHERE settled IS NULL;
""",
    """
-- Step 3: what sessions made of memories, and what a person put off.
--   feedback  one word of a session on a revision; counted by fact
--   fetches   how often, and when last, a fact was read whole soon after a search showed it to the same session
--   marks     since when something is counted
--   put_off   items of a review that are not shown until a moment
CREATE TABLE feedback (
  memory TEXT NOT NULL, session TEXT NOT NULL, fact TEXT NOT NULL, verdict TEXT NOT NULL, note TEXT,
  given REAL NOT NULL,
  PRIMARY KEY (memory, session)
) WITHOUT ROWID;
CREATE INDEX feedback_by_fact ON feedback (fact, given);
CREATE TABLE fetches (fact TEXT PRIMARY KEY, amount INTEGER NOT NULL, last REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE marks (name TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE put_off (
  section TEXT NOT NULL, memory TEXT NOT NULL, other TEXT NOT NULL, until REAL NOT NULL,
  PRIMARY KEY (section, memory, other)
) WITHOUT ROWID;
""",
)


@functools.lru_cache(maxsize=2048)
def unpacked(text: str) -> tuple[str, ...]:
    """A list column as a tuple; the same few headings and tags come again and again."""
    return tuple(json.loads(text))


def in_json(text: str) -> str:
    """A text as it stands inside a JSON column."""
    return json.dumps(text)[1:-1]


def migrate(connection: sqlite3.Connection, migrations: Sequence[str], version: int) -> None:
    """Take the file from `version` to the newest one; each step is one transaction. Raises sqlite3.Error."""
    for number in range(version, len(migrations)):
        try:
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{migrations[number]}\nPRAGMA user_version={number + 1};\nCOMMIT;"
            )
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise


def shape(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Every table, index and trigger with its definition: what two files of one version have in common."""
    return set(connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master"))


def expected_shape(migrations: Sequence[str]) -> set[tuple[str, ...]]:
    """The shape of a file made by all migrations."""
    model = sqlite3.connect(":memory:", isolation_level=None)
    try:
        migrate(model, migrations, 0)
        return shape(model)
    finally:
        model.close()
