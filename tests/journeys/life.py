"""Twenty-five things that happen to a vault of sixty memories, each with all that can be seen of it afterwards.

`python -m tests.journeys.life WORLD` does them to the home in WORLD and prints what was seen as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from memoryd.digest import sha256_hex
from memoryd.operations.home import Caller, Home
from memoryd.operations.reconcile import reconcile_vault
from memoryd.operations.scan import scan_corpora
from memoryd.records import shown_path
from tests.agents import Desk
from tests.extract.credentials import Maker
from tests.operations.conftest import configure, opened, settle

STEP_SECONDS = 60.0
BORN = 1_790_000_000.0
CODE = "".join(f"line {n} of the client\n" for n in range(1, 31))
CITED = "src/client.py#L3-L5"
REMOTES = {
    "ferry": "git@example.org:team/ferry.git",
    "ferry-": "git@example.org:team/ferry-.git",
    "other/ferry": "git@example.org:other/ferry.git",
}
MEMORIES = json.loads((Path(__file__).parent / "demo_memories.json").read_text())
BUDGET = "The retry budget of the upload client is 3 attempts."
HOLIDAY = "Nobody deploys in the week of the summer fair."
RED, BLUE = "Warnings are shown in red.", "Warnings are shown in blue."
ARCHIVED = "The staging cluster is called Pelican."
DROPPED = (
    "---\nid: {id}\nfact: {id}\nseq: 1\ntype: note\ntitle: Dropped in\ntags: []\nscope: global\nstatus: in_force\n"
    "created: 2026-09-01T08:00:00.000000Z\nupdated: 2026-09-01T08:00:00.000000Z\n---\n\n"
    "The lighthouse keeper holds the spare keys.\n"
)


class World:
    """A folder with a home and the projects beside it; its clock stands still while something happens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "home"
        self.now = BORN
        self.kept: dict[str, dict[str, Any]] = {}

    def build(self) -> None:
        """The home with sixty memories and their history, three projects and a corpus."""
        for name, remote in REMOTES.items():
            place = self.folder / "projects" / name
            place.mkdir(parents=True)
            self.git("init", "-q", cwd=place)
            self.git("remote", "add", "origin", remote, cwd=place)
            (place / "src").mkdir()
            (place / "src" / "client.py").write_text(CODE)
        (self.folder / "docs").mkdir()
        (self.folder / "docs" / "tides.md").write_text("# Tides\n\nThe ferry leaves two hours after high water.\n")
        corpus = {"label": "docs", "path": "../docs"}
        configure(self.root, corpora=[corpus], search={"model_wait_ms": 60_000})
        with opened(self.root, clock=lambda: self.now) as home:
            self.begin(home)
            scan_corpora(home)
            for number, memory in enumerate(MEMORIES):
                self.now += STEP_SECONDS
                scope = {} if number % 3 else {"scope": "global"}
                answer = self.call("memory_add", **memory, **scope)
                assert answer["outcome"] in ("added", "conflicts"), answer
            self.call("memory_archive", id=answer["id"], reason="a first token makes the home's secret")
            settle(home)

    def begin(self, home: Home) -> None:
        self.home = home
        self.desk = Desk(home)

    def caller(self, project: str = "ferry") -> Caller:
        return Caller(str(self.folder / "projects" / project), "session")

    def call(self, tool: str, *, project: str = "ferry", **arguments: Any) -> dict[str, Any]:
        return self.desk.agent(self.caller(project), tool, arguments)

    def remember(self, content: str, **more: Any) -> dict[str, Any]:
        return self.call("memory_add", **{"type": "decision", "content": content, **more})

    def shown(self, answer: dict[str, Any], **more: Any) -> dict[str, Any]:
        return self.call("memory_get", id=answer["id"], **more)

    def confirmed(self, tool: str, **arguments: Any) -> list[dict[str, Any]]:
        seen = self.call(tool, **arguments)
        return [seen, self.call(tool, **arguments, confirm=seen["confirm"])]

    def git(self, *words: str, cwd: Path | None = None) -> str:
        """git as a person calls it, at the world's time."""
        date = f"@{int(self.now)} +0000"
        environment = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "LC_ALL": "C"}
        command = ["git", "-c", "user.name=Person", "-c", "user.email=person@localhost", *words]
        place = self.home.vault.path if cwd is None else cwd
        done = subprocess.run(command, cwd=place, env=environment, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def file(self, answer: dict[str, Any]) -> Path:
        return self.home.vault.path / answer["path"]

    def edit(self, path: Path, old: str, new: str) -> dict[str, Any]:
        """A change by hand at the last place of `old`, and what the daemon's next look finds."""
        before, there, after = path.read_text().rpartition(old)
        assert there, after
        path.write_text(before + new + after)
        return self.look()

    def look(self) -> dict[str, Any]:
        found = reconcile_vault(self.home)
        settle(self.home)
        return found

    def seen(self) -> dict[str, Any]:
        """What there is after a step."""
        vault = self.home.vault.path
        listing = sorted(self.home.vault.listing())
        rows = self.home.memories.listed(None, (), (), 1000, 0)
        return {
            "files": {shown_path(path): sha256_hex(self.home.vault.read(path)) for path in listing},
            "memories": sorted([row.fields.id, row.fields.status, row.address] for row in rows),
            "commit": self.git("rev-parse", "HEAD", cwd=vault),
            "tree": self.git("rev-parse", "HEAD^{tree}", cwd=vault),
            "changes": self.git("status", "--porcelain", cwd=vault),
            "last_seq": self.home.documents.last_seq(),
        }


def add(world: World) -> list[Any]:
    world.kept["budget"] = world.remember(BUDGET, citations=[CITED], tags=["upload"])
    return [world.kept["budget"], world.shown(world.kept["budget"])]


def exact_re_add(world: World) -> list[Any]:
    again = world.remember(BUDGET)
    assert (again["outcome"], again["id"]) == ("exists", world.kept["budget"]["id"])
    return [again]


def blank_variant(world: World) -> list[Any]:
    again = world.remember("  The retry budget   of the upload client is 3 attempts. \n")
    cut = world.remember("The retry budget of the upload client\nis 3 attempts.")
    assert [again["outcome"], cut["outcome"]] == ["exists", "similar"]
    return [again, cut]


def near_duplicate(world: World) -> list[Any]:
    again = world.remember("the retry budget of the upload client is 3 attempts!")
    assert again["outcome"] == "similar" and again["neighbour"]["id"] == world.kept["budget"]["id"]
    return [again]


def conflict(world: World) -> list[Any]:
    world.kept["five"] = world.remember(BUDGET.replace("3", "5"))
    assert world.kept["five"]["outcome"] == "conflicts"
    return [world.kept["five"]]


def force(world: World) -> list[Any]:
    forced = world.remember("The retry budget of the Upload client is 3 attempts", force="the other spelling counts")
    assert forced["outcome"] in ("added", "conflicts")
    return [forced]


def keyed_revision(world: World) -> list[Any]:
    first = world.remember("The release train leaves on Tuesday.", key="release.day")
    second = world.remember("Since October it is Thursday afternoon.", key="release.day")
    ready = second["conflicts"][0]["proposal"]
    done = world.call(ready["tool"], **ready["arguments"])
    assert (done["outcome"], done["retired"]) == ("superseded", first["id"])
    return [first, second, done, world.shown(second, metadata=True)]


def a_b_a(world: World) -> list[Any]:
    first = world.remember(RED)
    to_blue = world.confirmed("memory_supersede", id=first["id"], content=BLUE)
    to_red = world.confirmed("memory_supersede", id=to_blue[1]["id"], content=RED)
    again = world.remember(RED)
    assert (again["outcome"], again["id"]) == ("exists", to_red[1]["id"])
    return [first, *to_blue, *to_red, again, world.shown(first, metadata=True)]


def supersede_preview(world: World) -> list[Any]:
    holiday = world.remember(HOLIDAY)
    asked = {"id": holiday["id"], "content": "Deploys go on in the week of the summer fair."}
    preview = world.call("memory_supersede", **asked)
    assert preview["outcome"] == "preview"
    world.kept |= {"holiday": holiday, "asked": {**asked, "confirm": preview["confirm"]}}
    return [holiday, preview]


def confirm(world: World) -> list[Any]:
    world.kept["done"] = world.call("memory_supersede", **world.kept["asked"])
    assert world.kept["done"]["outcome"] == "superseded"
    return [world.kept["done"]]


def stale_token(world: World) -> list[Any]:
    """The file was edited since, an hour has passed, the memory was superseded meanwhile."""
    first = world.remember("Invoices are numbered by year.")
    asked = {"id": first["id"], "reason": "numbered by month"}
    tokens = [world.call("memory_archive", **asked)]
    found = world.edit(world.file(first), "by year", "by the year")
    late = [world.call("memory_archive", **asked, confirm=tokens[0]["confirm"])]
    tokens.append(world.call("memory_archive", **asked))
    world.now += 3601.0
    late.append(world.call("memory_archive", **asked, confirm=tokens[1]["confirm"]))
    tokens.append(world.call("memory_archive", **asked))
    done = world.confirmed("memory_supersede", id=first["id"], content="Invoices are numbered by quarter.")
    late.append(world.call("memory_archive", **asked, confirm=tokens[2]["confirm"]))
    assert [one["code"] for one in late] == ["token-invalid", "token-invalid", "invalid-input"]
    return [first, *tokens, found, *late, *done]


def token_twice(world: World) -> list[Any]:
    again = world.call("memory_supersede", **world.kept["asked"])
    assert again == world.kept["done"]
    return [again]


def archive(world: World) -> list[Any]:
    world.kept["archived"] = world.remember(ARCHIVED)
    return world.confirmed("memory_archive", id=world.kept["archived"]["id"], reason="shut down")


def archived_re_add(world: World) -> list[Any]:
    again = world.remember(ARCHIVED)
    assert again["outcome"] == "retired" and again["proposal"]["arguments"]["id"] == world.kept["archived"]["id"]
    return [again]


def read_only_refusal(world: World) -> list[Any]:
    page = world.call("memory_get", source="docs/tides.md")
    refused = world.call("memory_archive", id=page["id"], reason="old")
    replaced = world.call("memory_supersede", id=page["id"], content="new")
    assert refused["code"] == replaced["code"] == "read-only"
    return [page, refused, replaced]


def bad_frontmatter(world: World) -> list[Any]:
    broken = world.remember("The harbour office closes at noon.")
    found = world.edit(world.file(broken), "seq: 1", "seq: [1")
    answers = [
        broken,
        found,
        world.shown(broken),
        world.call("memory_get", source=f"vault/{broken['path']}"),
        world.call("memory_archive", id=broken["id"], reason="old"),
        world.remember("The harbour office closes at noon."),
    ]
    assert all("error" in one for one in (answers[2], *answers[4:]))
    assert answers[3]["problem"]
    return [*answers, world.edit(world.file(broken), "seq: [1", "seq: 1"), world.shown(broken)]


def secret(world: World) -> list[Any]:
    refused = world.remember(f"The bot's token is {Maker(6).of('github-token')}.")
    assert refused["code"] == "secret-found"
    return [refused]


def failing_hook(world: World) -> list[Any]:
    hook = world.home.vault.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'the linter says no' >&2\nexit 1\n")
    hook.chmod(0o755)
    words = "Gulls are not fed from the quay."
    refused = world.remember(words)
    hook.unlink()
    assert "the linter says no" in refused["message"]
    return [refused, world.remember(words)]


def held_lock(world: World) -> list[Any]:
    lock = world.home.vault.path / ".git" / "index.lock"
    lock.touch()
    words = "The crane needs two people."
    refused = world.remember(words)
    lock.unlink()
    assert refused["code"] == "git-locked"
    return [refused, world.remember(words)]


def hand_edit(world: World) -> list[Any]:
    found = world.edit(world.file(world.kept["budget"]), "3 attempts", "4 attempts")
    again = world.remember(BUDGET)
    assert (again["outcome"], again["edited"]) == ("exists", True)
    return [found, again, world.shown(again)]


def dropped_in_file(world: World) -> list[Any]:
    name = world.home.vault.path / "global" / "note" / "dropped.md"
    name.parent.mkdir(parents=True, exist_ok=True)
    name.write_text(DROPPED.format(id=sha256_hex(b"dropped")))
    answers = [world.look(), world.call("memory_search", query="who holds the spare keys?")]
    world.git("add", "--", "global/note/dropped.md")
    world.git("commit", "-q", "-m", "by hand")
    assert answers[1]["memories"][0]["id"] == sha256_hex(b"dropped")
    return [*answers, world.look()]


def revert(world: World) -> list[Any]:
    world.git("revert", "--no-edit", world.kept["done"]["commit"])
    found = [world.look(), world.shown(world.kept["holiday"]), world.shown(world.kept["done"])]
    assert found[1]["status"] == "in_force" and "error" in found[2]
    return [*found, world.remember(HOLIDAY)]


def look_alike_scope(world: World) -> list[Any]:
    scope = world.kept["budget"]["scope"]
    others = [world.remember(BUDGET, project=name) for name in REMOTES if name != "ferry"]
    assert len({scope, *(one["scope"] for one in others)}) == len(REMOTES)
    seen = [world.shown(one) for one in others]
    named = [world.remember("Boats.", scope=near) for near in (scope.upper(), scope[:-1], f"{scope} ", scope + "0")]
    assert all(one["error"] for one in (*seen, *named))
    return [*others, *seen, *named, world.call("memory_search", query="retry budget", project="other/ferry")]


def citation_change(world: World) -> list[Any]:
    before = world.shown(world.kept["budget"])
    source = world.folder / "projects" / "ferry" / "src" / "client.py"
    source.write_text(CODE.replace("line 4", "row 4"))
    after = world.shown(world.kept["budget"])
    assert [one["citations"][0]["state"] for one in (before, after)] == ["fresh", "changed"]
    return [before, after]


def feedback(world: World) -> list[Any]:
    said = {"id": world.kept["budget"]["id"], "verdict": "outdated", "note": "it is four now"}
    first = world.call("memory_feedback", **said)
    return [first, world.call("memory_feedback", **said), world.shown(world.kept["budget"], metadata=True)]


STEPS: tuple[Callable[[World], list[Any]], ...] = (
    *(add, exact_re_add, blank_variant, near_duplicate, conflict, force, keyed_revision, a_b_a, supersede_preview),
    *(confirm, stale_token, token_twice, archive, archived_re_add, read_only_refusal, bad_frontmatter, secret),
    *(failing_hook, held_lock, hand_edit, dropped_in_file, revert, look_alike_scope, citation_change, feedback),
)


def looked_back(world: World) -> list[Any]:
    """Every reading tool at the end."""
    status = world.call("memory_status")
    status.pop("model")  # a process with its id and its times
    status["search"].pop("query_vectors")  # whether the model was quicker than the one who asks a second time
    status["store"].pop("stored_bytes")  # records name the folders of projects: another path is compressed otherwise
    asked = ("what is the retry budget", "postgres index", "deploys in the summer")
    return [
        *(world.call("memory_search", query=query, max_results=20) for query in asked),
        world.call("memory_recall", task="release the upload client"),
        world.call("snapshot_diff", since="2026-01-01"),
        world.desk.person(world.caller(), "review", {}),
        status,
    ]


def live(world: World) -> Iterator[dict[str, Any]]:
    """All of it, one after the other; a restart in the middle."""
    world.now = BORN + 7200 * STEP_SECONDS
    for part in (STEPS[:11], (*STEPS[11:], looked_back)):
        with opened(world.root, clock=lambda: world.now) as home:
            world.begin(home)
            for step in part:
                world.now += STEP_SECONDS
                answers = step(world)
                settle(home)
                yield {"step": step.__name__, "answers": answers, "seen": world.seen()}


def main(folder: str) -> None:
    told = json.dumps([*live(World(Path(folder)))], indent=1)
    sys.stdout.write(told.replace(folder, "WORLD"))


if __name__ == "__main__":
    main(sys.argv[1])
