"""Does the memory keep what holds and let go of what does not, and what does an acknowledged add cost?

    make bench-memory ARGS="--rules FOLDER"     rules that change, written one by one; see below
    make bench-memory                           adds beside a bare `git add` and `git commit` in the same repository

FOLDER holds `statements.jsonl` ({scope, seq, text, family}: rules as they were stated, in order; one family is one
rule) and `queries.jsonl` ({_id: "<scope>/f<family>", text, metadata: {scope}}). In the keyed run the family is the key
and every proposal is confirmed; in the other one nothing tells which rule a statement changes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoryd.operations import brief, gateway, reading, rebuild, reconcile
from memoryd.operations.home import Caller, Home
from memoryd.operations.indexing import catch_up
from tests.benchmarks.homes import fresh_home

WORDS = "kiln heron basalt ledger orchid gantry mortar saffron tundra walnut pylon quarry lantern ferry copper".split()
NOTES = (
    "Meeting {n}: the {a} team showed the {b} prototype and asked for feedback by the end of week {n}.",
    "The {a} migration finished on day {n}; the {b} table has {n} thousand rows now.",
    "Customer {n} reported a slow {a} page when the {b} filter is open.",
    "We looked at {n} vendors for the {a} and found the {b} offer most complete.",
    "Incident {n}: the {a} queue stalled because a {b} worker held its lock.",
)


def settle(home: Home) -> None:
    """Let the indexes follow."""
    while catch_up(home):
        pass


def note(number: int) -> str:
    """An unrelated note."""
    return NOTES[number % len(NOTES)].format(n=number, a=WORDS[number % 15], b=WORDS[number // 15 % 15])


@dataclass
class Rules:
    """One run over the statements of all scopes."""

    keyed: bool
    counts: Counter[str] = field(default_factory=Counter)

    def scope(self, home: Home, me: Caller, statements: list[dict[str, Any]], queries: list[dict[str, Any]]) -> None:
        """Write one scope's statements, confirm what is proposed, ask its queries, take its brief."""
        in_force: dict[int, tuple[str, str]] = {}
        for one in statements:
            self._write(home, me, one, in_force)
        settle(home)
        for query in queries:
            self._ask(home, me, query, statements)
        filled(home, me, 300)
        self._brief(home, me, in_force, statements)

    def _write(self, home: Home, me: Caller, one: dict[str, Any], in_force: dict[int, tuple[str, str]]) -> None:
        family = int(one["family"])
        key = f"rule {family}" if self.keyed else None
        answer = gateway.add(home, me, content=one["text"], type="preference", key=key)
        before = in_force.get(family)
        self.counts["adds"] += 1
        self.counts["changes"] += before is not None
        proposals = [(found["id"], found["proposal"]) for found in answer.get("conflicts", ())]
        if answer.get("proposal"):
            proposals = [(answer["proposal"]["arguments"]["id"], answer["proposal"])]
        id = answer.get("id")
        if proposals:
            right = before is not None and proposals[0][0] == before[0]
            self.counts["right" if right else "wrong"] += 1
        for _old, proposal in proposals if self.keyed else proposals[:1]:
            done = gateway.supersede(home, me, **proposal["arguments"])
            id = done["id"]
        in_force[family] = (str(id), one["text"])

    def _ask(self, home: Home, me: Caller, query: dict[str, Any], statements: list[dict[str, Any]]) -> None:
        family = int(query["_id"].rsplit("/f", 1)[1])
        said = [one["text"] for one in statements if one["family"] == family]
        if not said:
            return
        now, old = said[-1], set(said[:-1]) - {said[-1]}
        got = [
            one["content"].strip() for one in reading.search(home, me, query=query["text"], max_results=5)["memories"]
        ]
        stale = [at for at, text in enumerate(got) if text in old]
        self.counts["queries"] += 1
        self.counts["stale in the top 5"] += bool(stale)
        self.counts["in force above"] += now in got and (not stale or got.index(now) < stale[0])

    def _brief(
        self, home: Home, me: Caller, in_force: dict[int, tuple[str, str]], statements: list[dict[str, Any]]
    ) -> None:
        lines = brief.recall(home, me, task="write code here")["brief"].splitlines()
        shown = {line[2:].rsplit(" [", 1)[0] for line in lines if line.startswith("- ")}
        held = {text for _id, text in in_force.values()}
        self.counts["rules in force"] += len(held)
        self.counts["rules in the brief"] += len(held & shown)
        self.counts["outdated in the brief"] += len(({one["text"] for one in statements} - held) & shown)

    def told(self) -> str:
        """The figures with their bars."""
        c = self.counts
        first = (
            f"rule in force above every older one {c['in force above'] / c['queries']:.1%} of {c['queries']} queries"
        )
        stale = f"outdated rule in the top 5 {c['stale in the top 5'] / c['queries']:.1%}"
        held = (
            f"brief holds {c['rules in the brief'] / c['rules in force']:.1%} of {c['rules in force']} rules in force"
        )
        right = f"changes proposed with the right predecessor first {c['right'] / max(1, c['changes']):.1%}"
        wrong = f"wrong proposals {c['wrong'] / c['adds']:.1%} of {c['adds']} adds"
        name = "keyed" if self.keyed else "without keys"
        return f"{name}: {right} of {c['changes']}; {wrong}\n  {first}; {stale}\n  {held}, {c['outdated in the brief']} outdated"


def rules(folder: Path, place: Path, most: int) -> None:
    """Both runs."""
    statements = [json.loads(line) for line in (folder / "statements.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    scopes = list(dict.fromkeys(one["scope"] for one in statements))[:most]
    for keyed in (True, False):
        run = Rules(keyed)
        with fresh_home(place / f"rules-{keyed}") as home:
            for scope in scopes:
                folder = place / f"projects-{keyed}" / scope
                folder.mkdir(parents=True)
                subprocess.run(["git", "init", "-q", folder], check=True)
                own = [one for one in statements if one["scope"] == scope]
                run.scope(home, Caller(str(folder)), own, [q for q in queries if q["metadata"]["scope"] == scope])
        print(run.told(), flush=True)


def milliseconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def p95(values: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(values, n=20)[-1]


def filled(home: Home, me: Caller, entries: int, scope: str | None = None) -> None:
    """So many unrelated notes more, committed at once as a pull would bring them."""
    seed = gateway.add(home, me, content="The first note of many.", type="note", scope=scope)
    path = home.vault.path / seed["path"].removeprefix("vault/")
    model = path.read_text()
    start = home.documents.last_seq()
    for number in range(entries):
        id = f"{start:032x}{number:032x}"
        text = model.replace(seed["id"], id).replace("The first note of many.", note(number))
        (path.parent / f"n-{start}-{number}.md").write_text(text)
    git = ["git", "-C", str(home.vault.path), "-c", "user.name=b", "-c", "user.email=b@localhost"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "many"], check=True)
    reconcile.reconcile_vault(home)
    settle(home)


def bare(home: Home, number: int) -> None:
    """What git alone does for one file with the same durability."""
    git = [
        "git",
        "-C",
        str(home.vault.path),
        "-c",
        "core.fsync=all",
        "-c",
        "user.name=b",
        "-c",
        "user.email=b@localhost",
    ]
    path = home.vault.path / "bare" / f"{number}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(note(number))
    subprocess.run([*git, "add", "--", str(path)], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "bare", "--", str(path)], check=True)


def adds(home: Home, count: int, first: int, *, beside: bool) -> tuple[list[float], list[float]]:
    """Milliseconds of adds and, in turn with them, of bare commits."""
    ours, plain = [], []
    for number in range(first, first + count):
        text = f"{note(number)} This is remark {number} of the second kind."
        ours.append(
            milliseconds(lambda t=text: gateway.add(home, Caller(), content=t, type="fact", scope="global"))  # type: ignore[misc]
        )
        if beside:
            plain.append(milliseconds(lambda n=number: bare(home, n)))  # type: ignore[misc]
        settle(home)
    return ours, plain


def latency(place: Path, entries: tuple[int, ...], count: int) -> None:
    """Adds in vaults of several sizes, idle and during a rebuild, and the first one after a cold start."""
    before = 0.0
    for size in entries:
        root = place / f"adds-{size}"
        with fresh_home(root) as home:
            filled(home, Caller(), size, "global")
            adds(home, 3, 500_000, beside=True)
            ours, plain = adds(home, count, 600_000, beside=True)
            grown = f", {p95(ours) / before:.2f}x the vault before" if before else ""
            before = before or p95(ours)
            print(
                f"{size} entries: add p50 {statistics.median(ours):.0f} p95 {p95(ours):.0f} ms, "
                f"bare git p50 {statistics.median(plain):.0f} p95 {p95(plain):.0f} ms, "
                f"{p95(ours) / p95(plain):.2f}x{grown}",
                flush=True,
            )
            ended = threading.Event()
            worker = threading.Thread(target=lambda: _rebuilt(home, ended))
            worker.start()
            busy: list[float] = []
            while not ended.is_set() and len(busy) < count:
                text = f"{note(len(busy))} This is remark {len(busy)} of the third kind."
                busy.append(
                    milliseconds(lambda t=text: gateway.add(home, Caller(), content=t, type="fact", scope="global"))  # type: ignore[misc]
                )
            worker.join()
            print(f"  during a rebuild p95 {p95(busy):.0f} ms ({len(busy)} adds), {p95(busy) / p95(ours):.2f}x idle")
        began = time.perf_counter()
        with fresh_home(root) as home:
            answer = gateway.add(home, Caller(), content="A cold start was here.", type="fact", scope="global")
            print(
                f"  first add after a cold start {time.perf_counter() - began:.2f} s ({answer['similarity']})",
                flush=True,
            )


def _rebuilt(home: Home, ended: threading.Event) -> None:
    try:
        rebuild.rebuild(home)
    finally:
        ended.set()


def main() -> int:
    """The command: 0 when all ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=Path, help="a folder with statements.jsonl and queries.jsonl")
    parser.add_argument("--scopes", type=int, default=1000, help="only the first so many scopes of it")
    parser.add_argument("--entries", default="1000", help="sizes of vaults, such as 1000,10000")
    parser.add_argument("--adds", type=int, default=100)
    parser.add_argument("--place", type=Path, help="where homes lie; default: a temporary folder")
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="memoryd-bench-", dir=given.place))
    try:
        if given.rules is not None:
            rules(given.rules, place, given.scopes)
        else:
            latency(place, tuple(int(one) for one in given.entries.split(",")), given.adds)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
