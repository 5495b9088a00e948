"""What does memoryd do, shown from nothing in one run? The script behind `make demo`.

Everything real, nothing imported from the product: two `memproxy` processes spoken to as an editor would, the `memoryd`
command, git, sha256sum. A throw-away home and project in a temporary folder; no process and no file stays behind.
Exit code 1 if any claim does not hold.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.journeys import paraphrase
from tests.journeys.stage import Session, Stage, Stopped, Story, clean_up, throw_away

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MEMORIES: list[dict[str, Any]] = json.loads((HERE / "demo_memories.json").read_text("utf-8"))
QUESTIONS: list[dict[str, Any]] = json.loads((HERE / "demo_questions.json").read_text("utf-8"))
SHOWN = 10
"""Results asked for; a right entry below them has no rank."""
TOP = 5
NEEDED = 15
INDEX_SECONDS = 1800
MODEL_TRIES = 30


def add_all(story: Story, a: Session, b: Session) -> list[dict[str, Any]]:
    """All memories, half through each session, both at the same time; the answers in the order of the file."""
    answers: dict[int, dict[str, Any]] = {}
    problems: list[str] = []

    def work(session: Session, numbers: range) -> None:
        try:
            for number in numbers:
                answers[number] = session.tool("memory_add", **MEMORIES[number])
        except Stopped as problem:
            problems.append(str(problem))

    half = len(MEMORIES) // 2
    workers = [
        threading.Thread(target=work, args=(a, range(half))),
        threading.Thread(target=work, args=(b, range(half, len(MEMORIES)))),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if problems:
        raise Stopped("\n".join(problems))
    added = [answers[number] for number in range(len(MEMORIES))]
    fresh = {answer["id"] for answer in added if answer["outcome"] == "added"}
    story.claim(f"{len(fresh)} of {len(MEMORIES)} memories added, each with an id of its own", len(fresh) == len(added))
    again = b.tool("memory_add", **MEMORIES[0])
    story.claim(
        f"session B adds session A's first memory again: `{again['outcome']}`, the same id, nothing written",
        again["outcome"] == "exists" and again["id"] == added[0]["id"],
    )
    return added


def show_vault(story: Story, stage: Stage, answer: dict[str, Any]) -> None:
    """The file of one memory, its commit, and that every memory has one file and one commit."""
    path = stage.vault / answer["path"]
    story.show(f"cat vault/{answer['path']}", path.read_text("utf-8"))
    commit = stage.git("log", "-1", "--format=%H", "--", answer["path"]).strip()
    story.show(f"git -C vault show --stat {commit[:12]}", stage.git("show", "--stat", "--format=commit %h%n%s", commit))
    touched = stage.git("show", "--name-only", "--format=", commit).split()
    story.claim("this commit holds this one file", touched == [answer["path"]] and commit == answer["commit"])
    log = stage.git("log", "--format=%x00%H", "--name-only", "--", "*.md").split("\0")[1:]
    files = [entry.split("\n")[1:] for entry in log]
    single = [names for names in files if len([name for name in names if name]) == 1]
    story.claim(f"{len(single)} commits, one Markdown file each", len(single) == len(files) == len(MEMORIES))
    story.claim("nothing in the vault is uncommitted", not stage.git("status", "--porcelain").strip())


def wait_indexed(story: Story, session: Session) -> dict[str, Any]:
    """Ask memory_status until nothing is pending; the last answer."""
    until = time.monotonic() + INDEX_SECONDS
    told = time.monotonic()
    while True:
        status = session.tool("memory_status")
        if not status["index"]["pending"] and not status["index"]["degraded"]:
            return status
        if time.monotonic() > until:
            raise Stopped(f"Not indexed after {INDEX_SECONDS} s: {status['index']}")
        if time.monotonic() - told > 30:
            told = time.monotonic()
            story.say(f"... {status['index']['pending']} documents wait to be indexed")
        time.sleep(0.25)


def ask(stage: Stage, a: Session, b: Session, question: str) -> list[dict[str, Any]]:
    """The answers of session A, session B and the command line; asked again while the model is not ready."""
    answers: list[dict[str, Any]] = []
    for search in (
        lambda: a.tool("memory_search", query=question, max_results=SHOWN),
        lambda: b.tool("memory_search", query=question, max_results=SHOWN),
        lambda: stage.cli_json("search", "--max-results", str(SHOWN), question),
    ):
        for _ in range(MODEL_TRIES):
            answer = search()
            if not answer["index"]["degraded"]:
                break
            time.sleep(1)
        else:
            raise Stopped(f"The index stays degraded: {answer['index']}")
        answers.append(answer)
    return answers


def fingerprint(answer: dict[str, Any]) -> list[tuple[str, str]]:
    """Ids and scores of all results, scores by their bits."""
    return [(hit["id"], float(hit["relevance"]).hex()) for hit in answer["memories"]]


def grep(stage: Stage, *kind: str, patterns: list[str]) -> list[str]:
    """Lines that `git grep` finds of any of the patterns in the vault."""
    wanted = [part for pattern in patterns for part in ("-e", pattern)]
    return stage.git("grep", "-i", *kind, *wanted, allowed=(0, 1)).splitlines()


def ask_all(story: Story, stage: Stage, a: Session, b: Session, added: list[dict[str, Any]]) -> dict[str, Any]:
    """Every question from three sides; the first right hit."""
    ranks: list[int | None] = []
    same = unmatched = 0
    right_hit: dict[str, Any] = {}
    for number, asked in enumerate(QUESTIONS, 1):
        memory = MEMORIES[asked["memory"]]
        right = added[asked["memory"]]["id"]
        answers = ask(stage, a, b, asked["question"])
        identical = fingerprint(answers[0]) == fingerprint(answers[1]) == fingerprint(answers[2])
        same += identical
        place = next((n for n, hit in enumerate(answers[0]["memories"], 1) if hit["id"] == right), None)
        ranks.append(place)
        pairs = paraphrase.neighbours(asked["question"])
        spelled = [" ".join(pair) for pair in pairs]
        lines = grep(stage, "-F", patterns=spelled)
        lines += grep(stage, "-E", patterns=[paraphrase.grep_pattern(pair) for pair in pairs])
        share = paraphrase.shared_share(asked["question"], paraphrase.entry_text(memory))
        unmatched += not lines and share <= paraphrase.MAX_SHARED
        story.say(f"\n{number:2}. {asked['question']}")
        story.say(f"    right entry: {memory['title']}")
        if place is None:
            others = answers[0]["memories"]
            first = f"first was {others[0]['title']}" if others else answers[0]["summary"]
            story.say(f"    rank: below {SHOWN}; {first}")
        else:
            hit = answers[0]["memories"][place - 1]
            right_hit = right_hit or hit
            verdict = "the same id and score" if identical else "DIFFERENT answers"
            story.say(f"    rank: {place}   {hit['id'][:12]}  {hit['relevance']!r}  {verdict} from A, B and the CLI")
        quoted = " ".join(f"-e '{text}'" for text in spelled)
        story.say(f"    git grep -i -F {quoted}: {'; '.join(lines) or 'nothing'}   (words shared: {share:.0%})")
    story.say("")
    found = sum(1 for place in ranks if place is not None and place <= TOP)
    story.say(f"ranks: {' '.join(str(place or '-') for place in ranks)}")
    story.claim(f"{found} of {len(QUESTIONS)} right entries in the top {TOP} (needed: {NEEDED})", found >= NEEDED)
    story.claim(
        f"{same} of {len(QUESTIONS)} answers have the same ids and bit-identical scores from both sessions and the CLI",
        same == len(QUESTIONS),
    )
    story.claim(
        f"{unmatched} of {len(QUESTIONS)} questions share no neighbouring words with any memory and at most a third "
        "of their words with the right one",
        unmatched == len(QUESTIONS),
    )
    return right_hit


def check_address(story: Story, stage: Stage, hit: dict[str, Any]) -> None:
    """A hit's address against sha256sum, its byte range against the file."""
    path = stage.home / hit["source"]
    line = stage.run("sha256sum", str(path))
    story.show(f"sha256sum {hit['source']}", line.split()[0])
    story.say(f"the hit's address: {hit['address']}")
    story.claim(
        "the address is the file's SHA-256", hit["address"].removeprefix("sha256:") == line.split()[0].lstrip("\\")
    )
    start, end = hit["bytes"]
    told = path.read_bytes()[start:end].decode("utf-8")
    story.claim(f"bytes {start} to {end} of the file are the excerpt that was shown", told == hit["content"])


def host_snippet(story: Story, stage: Stage) -> None:
    entry = {"mcpServers": {"memoryd": {"type": "stdio", "command": stage.memproxy, "args": []}}}
    story.show("cat .mcp.json   # Claude Code; other hosts: docs/hosts.md", json.dumps(entry, indent=2))


def add_corpus(story: Story, stage: Stage, docs: Path | None) -> None:
    place = [str(docs)] if docs else [str(ROOT), "--include", "docs/**/*.md", "--include", "README.md"]
    stage.cli("corpus", "add", "docs", *place)
    story.show("cat config.json", (stage.home / "config.json").read_text("utf-8"))


def play(story: Story, stage: Stage, docs: Path | None) -> None:
    """The story from the first session to the last answer."""
    story.step("A fresh user", "One git project, an empty home, and one read-only folder of documents to search.")
    add_corpus(story, stage, docs)
    with ExitStack() as open_sessions:
        story.step(
            "Two editor sessions", "Two memproxy processes, started the way a host does it; no daemon ran before."
        )
        a = Session(stage, "A", "2025-11-25")
        open_sessions.callback(a.close)
        b = Session(stage, "B", "2025-06-18")
        open_sessions.callback(b.close)
        for session in (a, b):
            version = session.server["protocolVersion"]
            story.say(f"session {session.name}: {session.server['serverInfo']['name']}, protocol {version}")
        daemons = [line for line in stage.processes().values() if " serve" in line]
        story.claim(f"{len(daemons)} daemon serves both", len(daemons) == 1)

        story.step(
            f"{len(MEMORIES)} memories",
            "Half through each session at the same time: one vault, no lost or double entry.",
        )
        added = add_all(story, a, b)

        story.step("The vault", "A memory is a Markdown file that a person can read, and one git commit of this file.")
        show_vault(story, stage, added[QUESTIONS[0]["memory"]])

        story.step("The documents", "The corpus is scanned as a job of the daemon and indexed behind the answers.")
        report = stage.cli_json("corpus", "scan")["corpora"]["docs"]
        story.say(f"{report['files']} files read, {report['added']} stored, {len(report['problems'])} problems")
        status = wait_indexed(story, a)
        documents = status["corpora"][0]["documents"]
        story.claim(f"{documents} documents and {status['passages']} passages indexed, nothing pending", documents > 0)

        story.step(
            f"{len(QUESTIONS)} questions in other words",
            "Each is asked in session A, in session B and on the command line. No two neighbouring words of a question "
            "stand together anywhere in the vault: git grep finds none of the pairs, neither as they are spelled nor in "
            "another inflection or with little words between them.",
        )
        hit = ask_all(story, stage, a, b, added)

        story.step(
            "Where an answer comes from", "A hit's address is the SHA-256 of the stored file: check it yourself."
        )
        check_address(story, stage, hit)

        story.step("Status", "The same picture for people and agents.")
        story.show("memoryd status", stage.cli("status"))

        story.step("Your turn", "This is all that a host needs to know.")
        host_snippet(story, stage)
        story.step("The end", "Sessions close, the daemon stops, the folder goes.")
    codes = [a.process.returncode, b.process.returncode]
    story.claim(f"both sessions ended by themselves when their input closed (exit codes {codes})", codes == [0, 0])


def main() -> int:
    """Run the story; 0 when every claim holds."""
    parser = argparse.ArgumentParser(description="Show what memoryd does, from nothing, and check it.")
    parser.add_argument("--docs", type=Path, help="folder of Markdown files to index; default: this project's own")
    options = parser.parse_args()
    story = Story()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: sys.exit(128 + received))  # an end that cleans up
    with throw_away(story) as folder:
        stage = None
        try:
            stage = Stage(folder)
            play(story, stage, options.docs.resolve() if options.docs else None)
        except Stopped as problem:
            story.claim(str(problem), False)
            log = folder / "memoryd" / "log" / "memoryd.log"
            if log.exists():
                story.show("tail log/memoryd.log", "\n".join(log.read_text("utf-8", "replace").splitlines()[-30:]))
        finally:
            if stage is not None:
                clean_up(story, stage)
    return story.end()


if __name__ == "__main__":
    sys.exit(main())
