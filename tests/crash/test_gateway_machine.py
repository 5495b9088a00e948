"""Whatever sessions and shells call, in whatever order and however it is cut off: no memory is altered, lost or shown
to a project that it is not of.

The rules call every tool of an agent and the agents' commands of the shell with arguments that are good, stale, of
somebody else, or nonsense. Each project writes a word of its own into everything it says, so a leak is seen anywhere.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from memoryd.cli import main
from memoryd.client import ToldError
from memoryd.files import Files
from memoryd.operations.callers import project
from memoryd.operations.check import check
from memoryd.operations.home import Caller
from memoryd.shell import Context
from memoryd.sources import entry
from tests.agents import Desk
from tests.operations.conftest import configure, opened, settle
from tests.templates import copy

MARKERS = {"heron": "quokka", "stork": "narwhal", "crane": "axolotl"}
"""The word that everything of a project holds."""
WRITTEN = {"added", "conflicts", "superseded", "archived"}
MEMORY = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
BORN = 1_800_000_000.0
WRITING = {"memory_add", "memory_supersede", "memory_archive"}
LATER = {"in_force": {"superseded", "archived"}, "archived": {"superseded"}, "superseded": set()}
"""What a status may become."""
BODIES = (
    "The {0} port of the service is {1}.",
    "the {0}  PORT of the service is {1}",
    "Never use {0} before version {1}.",
    "# {0}\n\n```sh\nrun  --level {1}\n\n```\n",
    "---\nid: {0}\nstatus: archived\n---\n\nIt is {1}.",
    "  \r\n{0} is {1}\r\n\r\n",
    "<<<<<<< HEAD\n{0}\n=======\n{1}\n>>>>>>> other\n",
    "\ufeff{0} \u2028 {1} \u0301\U0001f426",
    "--force {0} {1}",
)
CHANGES: tuple[Callable[[str], str], ...] = (
    *(str, str, str.upper, str.strip),
    lambda text: text.rstrip(".\n") + "!",
    lambda text: text.replace("80", "81").replace("443", "444"),
    lambda text: text.replace(" is ", " is not "),
    lambda text: f"{text}\nAnd more.",
)
"""What becomes of a memory's words when they are said again."""
NONSENSE = (
    "",
    " ",
    "0" * 64,
    "zz",
    "deadbeef",
    "sha256:" + "0" * 64,
    "../../x",
    "\udc80",
    "a\0b",
    "-",
    "'; --",
    "x" * 300,
)
SCOPES = ("p-heron-00000000", "GLOBAL", "p-heron", "global ", "*", "")
EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "4"))
QUICK = EXAMPLES < 20
STEPS = 20 if QUICK else 40

callers = st.sampled_from([*MARKERS, *MARKERS, None])
roads = st.sampled_from(["agent", "agent", "shell"])
picks = st.integers(0, 60)
bodies = st.tuples(st.integers(0, len(BODIES) - 1), st.sampled_from(["red", "blue"]), st.sampled_from(["80", "443"]))
maybe = st.none() | st.none() | st.sampled_from(["port", "colour"])
wheres = st.sampled_from(["own", "own", "own", "global", "global", "other", "nonsense"])
times = st.sampled_from([0, 1, 60, 4000])
Arguments = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Acknowledged:
    """A memory as it was when its write was acknowledged."""

    id: str
    body: bytes
    frontmatter: tuple[str, str, str]
    path: str
    status: list[str] = field(default_factory=list)

    @property
    def scope(self) -> str:
        return self.frontmatter[2]


def git(*words: str, cwd: Path) -> str:
    return subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True).stdout.decode()


@cache
def prepared() -> tuple[Path, Path]:
    """The projects, which nobody changes, and a home in which each has a memory already."""
    folder = Path(tempfile.mkdtemp(prefix="memoryd-gateway-", dir=MEMORY))
    atexit.register(shutil.rmtree, folder)
    configure(folder / "home", search={"model_wait_ms": 200})
    with opened(folder / "home", clock=lambda: BORN) as home:
        for name, word in MARKERS.items():
            place = folder / name
            place.mkdir()
            git("init", "-q", cwd=place)
            git("remote", "add", "origin", f"git@example.org:birds/{name}.git", cwd=place)
            (place / "notes.txt").write_text("".join(f"line {n} {word}\n" for n in range(9)))
            given = {"content": f"This is about {word} green and 8080.", "type": "note", "tags": [word]}
            Desk(home).agent(Caller(str(place), "session"), "memory_add", given)
        settle(home)
    return folder, folder / "home"


class Gateway(RuleBasedStateMachine):
    """`known` are the acknowledged memories; `plans` calls with a token, made or not; `seen` all ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.projects, model = prepared()
        self.folder = Path(tempfile.mkdtemp(prefix="memoryd-gateway-", dir=MEMORY))
        copy(model, self.folder / "home")
        self.now = BORN
        self.plans: list[tuple[str, Arguments]] = []
        self.made: list[tuple[str, Arguments, Answer]] = []
        self.seen: list[str] = []
        self.start()
        self.head = self.last = self.home.vault.head() or ""
        self.known = {identity: taken(file) for identity, file in self.files().items()}
        found = {name: project(self.home, self.caller(name)) for name in MARKERS}
        self.scopes = {name: one.scope for name, one in found.items() if one is not None}

    def start(self) -> None:
        self.open = ExitStack()
        self.home = self.open.enter_context(opened(self.folder / "home", clock=lambda: self.now))
        self.desk = Desk(self.home)

    def teardown(self) -> None:
        try:
            settle(self.home)
            found = check(self.home, read_data=True)["findings"]
            assert found == [], found
            assert self.git("fsck", "--strict", "--no-dangling") == ""
        finally:
            self.open.close()
            shutil.rmtree(self.folder)

    # what the rules are made of

    def caller(self, name: str | None) -> Caller:
        return Caller(None if name is None else str(self.projects / name), "session")

    def git(self, *words: str) -> str:
        return git(*words, cwd=self.folder / "home" / "vault")

    def scope(self, who: str | None, where: str, pick: int) -> str | None:
        """A scope that is named in a call."""
        others = [scope for name, scope in self.scopes.items() if name != who]
        options = {"own": (None,), "global": ("global",), "other": others, "nonsense": SCOPES}[where]
        return options[pick % len(options)]

    def marker(self, who: str | None, scope: str | None) -> str:
        """What is said into a scope holds the scope's word; into `global` none."""
        owners = [name for name, known in self.scopes.items() if known == scope]
        name = owners[0] if owners else None if scope == "global" else who
        return MARKERS.get(name or "", "plain")

    def words(self, body: tuple[int, str, str], marker: str) -> str:
        return BODIES[body[0]].format(f"{marker} {body[1]}", body[2])

    def id(self, pick: int) -> str:
        """An id of any scope and state, whole or shortened; one in seven was made up or is of something else."""
        others = [*self.seen[-8:], *NONSENSE]
        known = [*self.known]
        if pick % 7 == 6:
            return others[pick // 7 % len(others)]
        return known[pick % len(known)][: 12 if pick % 5 == 4 else 64]

    def who(self, who: str | None, identity: str) -> str | None:
        """Mostly somebody who may see the memory; a caller outside every project stands for a stranger to it."""
        owners = [name for name, scope in self.scopes.items() if scope == self.scope_of(identity)]
        return owners[0] if who is not None and owners else who

    def scope_of(self, identity: str) -> str | None:
        found = [one.scope for one in self.known.values() if len(identity) > 7 and one.id.startswith(identity)]
        return found[0] if found else None

    def token(self, pick: int) -> str | None:
        tokens = [str(given["confirm"]) for _tool, given in self.plans]
        options = [*[None] * 12, *tokens[-4:], "x", "a.b", *(one[:-1] for one in tokens[-2:])]
        return options[pick % len(options)]

    # what every call must keep to

    def call(self, road: str, who: str | None, tool: str, arguments: Arguments) -> Answer:
        """Make a call; whatever it answers is judged before anything else is done."""
        given = {name: value for name, value in arguments.items() if value is not None}
        before = self.head
        answer = shell(self.desk, self.caller(who), tool, given) if road == "shell" else None
        if answer is None:
            ask = self.desk.person if road == "person" else self.desk.agent
            answer = ask(self.caller(who), tool, given)
        self.judge(who, tool, given, answer, before)
        return answer

    def judge(self, who: str | None, tool: str, given: Arguments, answer: Answer, before: str) -> None:
        self.no_leak(who, given, answer)
        self.head = self.home.vault.head() or ""
        outcome = answer.get("outcome") if tool in WRITING else None
        if self.head != before:
            assert outcome in WRITTEN, (tool, answer)
            names = self.git("show", "--name-only", "--format=", self.head).split("\n")
            assert len([name for name in names if name]) <= 2
            assert self.git("rev-list", "--count", self.head, *([f"^{before}"] if before else [])).strip() == "1"
        if outcome in WRITTEN:
            self.acknowledged(tool, given, answer, fresh=self.head != before)
        self.remember(answer)

    def no_leak(self, who: str | None, given: Arguments, answer: Answer) -> None:
        told = json.dumps(answer)
        for name in ("source", "query", "id", "by", "task", "path"):  # a caller may hear its own words again
            told = told.replace(json.dumps(str(given.get(name, "")))[1:-1] or "\0", "")
        allowed = {who, *(name for name, scope in self.scopes.items() if scope == given.get("scope"))}
        foreign = [word for name, word in MARKERS.items() if name not in allowed and word in told.lower()]
        assert not foreign, (who, given, answer)

    def remember(self, answer: Answer) -> None:
        """Ids, addresses and ready calls, for later ones."""
        for value in found_in(answer):
            if isinstance(value, str):
                if value not in self.seen:
                    self.seen.append(value)
            elif (value["tool"], value["arguments"]) not in self.plans and "confirm" in value["arguments"]:
                self.plans.append((value["tool"], value["arguments"]))

    def acknowledged(self, tool: str, given: Arguments, answer: Answer, *, fresh: bool) -> None:
        """What was said to be stored stands in HEAD, with exactly the words that were given."""
        file = self.files()[answer["id"]]
        if answer["id"] not in self.known:
            self.known[answer["id"]] = one = taken(file)
            assert fresh or tool == "memory_supersede", (tool, answer)
            if "content" in given:
                assert one.body == given["content"].encode()
        assert self.known[answer["id"]].path == answer["path"]

    def files(self) -> dict[str, tuple[str, bytes]]:
        """Every memory in HEAD by its id: path and bytes."""
        if not self.head:
            return {}
        listed = [line.split("\t") for line in self.git("ls-tree", "-r", "HEAD").splitlines()]
        asked = "".join(f"{about.split()[2]}\n" for about, _path in listed)
        command = ["git", "cat-file", "--batch"]
        vault = self.folder / "home" / "vault"
        rest = subprocess.run(command, cwd=vault, check=True, capture_output=True, input=asked.encode()).stdout
        found = {}
        for _about, path in listed:
            line, _, rest = rest.partition(b"\n")
            size = int(line.split()[2])
            data, rest = rest[:size], rest[size + 1 :]
            identity = entry.parse(data).fields.id
            assert identity not in found, "one file a memory"
            found[identity] = (path, data)
        return found

    # the rules

    @rule(road=roads, who=callers, body=bodies, key=maybe, where=wheres, pick=picks, force=st.booleans())
    def add(
        self,
        road: str,
        who: str | None,
        body: tuple[int, str, str],
        key: str | None,
        where: str,
        pick: int,
        force: bool,
    ) -> None:
        scope = self.scope(who, where, pick)
        marker = self.marker(who, scope)
        kind = "fact" if pick % 3 else "decision"
        given = {"content": self.words(body, marker), "type": kind, "key": key and f"{marker} {key}", "scope": scope}
        if pick % 4 == 0:
            given |= {"title": f"About {marker}", "tags": [marker]}
        if pick % 7 == 0:
            given["citations"] = [f"notes.txt#L{1 + pick % 5}"]
        if force and road == "agent":
            given["force"] = f"the {marker} wording counts"
        self.call(road, who, "memory_add", given)

    @rule(road=roads, who=callers, old=picks, by=st.none() | picks, body=bodies, token=picks, go_on=st.booleans())
    def supersede(
        self,
        road: str,
        who: str | None,
        old: int,
        by: int | None,
        body: tuple[int, str, str],
        token: int,
        go_on: bool,
    ) -> None:
        identity = self.id(old)
        who = who if old % 5 == 0 else self.who(who, identity)
        content = self.words(body, self.marker(who, self.scope_of(identity)))
        said = {"content": content} if by is None else {"by": self.id(by)}
        self.planned(road, who, "memory_supersede", {"id": identity, **said}, token, go_on)

    @rule(road=roads, who=callers, old=picks, token=picks, go_on=st.booleans())
    def archive(self, road: str, who: str | None, old: int, token: int, go_on: bool) -> None:
        identity = self.id(old)
        who = who if old % 5 == 0 else self.who(who, identity)
        reason = f"no {self.marker(who, self.scope_of(identity))} any more" if old % 9 else " "
        self.planned(road, who, "memory_archive", {"id": identity, "reason": reason}, token, go_on)

    def planned(self, road: str, who: str | None, tool: str, given: Arguments, token: int, go_on: bool) -> None:
        """A preview, or a try with somebody's token; then perhaps the token that came back, perhaps twice."""
        answer = self.call(road, who, tool, {**given, "confirm": self.token(token)})
        if "confirm" not in answer:
            return
        again = {**given, "confirm": answer["confirm"]}
        self.plans.append((tool, again))
        if go_on:
            done = self.call(road, who, tool, again)
            if "error" not in done:
                assert self.call("agent", who, tool, again) == done
                self.made.append((tool, again, done))

    @precondition(lambda self: self.plans)
    @rule(road=roads, who=callers, pick=picks, spoil=st.sampled_from(["", "", "id", "content", "reason", "by"]))
    def redeem(self, road: str, who: str | None, pick: int, spoil: str) -> None:
        """A token of any plan, by anybody, perhaps with another argument than it was made for."""
        tool, given = self.plans[pick % len(self.plans)]
        who = who if pick % 5 == 0 else self.who(who, given["id"])
        spoilt = given
        if spoil in given:
            spoilt = {**given, spoil: self.id(pick) if spoil in ("id", "by") else "other words"}
        answer = self.call(road, who, tool, spoilt)
        if answer.get("outcome") in WRITTEN:  # a shortened id says the same
            same = all(given[name][: len(value)] == value for name, value in spoilt.items())
            assert same, "a token does what it was made for, and nothing else"

    @precondition(lambda self: self.made)
    @rule(who=callers, pick=picks, road=roads)
    def redeem_again(self, who: str | None, pick: int, road: str) -> None:
        tool, given, first = self.made[pick % len(self.made)]
        answer = self.call(road, who, tool, given)
        assert answer == first or answer["code"] == "not-found"

    @rule(road=roads, who=callers, pick=picks, change=st.integers(0, len(CHANGES) - 1), named=st.booleans())
    def add_known_words(self, road: str, who: str | None, pick: int, change: int, named: bool) -> None:
        """The words of a memory in whatever state, as they are or nearly; follow the call that is proposed, or leave it
        to others."""
        one = list(self.known.values())[-1 - pick % min(len(self.known), 8)]
        owner = self.who(who, one.id)
        content = CHANGES[change](one.body.decode())
        scope = one.scope if named or one.scope == "global" else None
        _created, kind, _scope = one.frontmatter
        answer = self.call(road, owner, "memory_add", {"content": content, "type": kind, "scope": scope})
        ready = [value for value in found_in(answer) if isinstance(value, dict)]
        if ready and pick % 3:
            self.call("agent", owner, ready[0]["tool"], ready[0]["arguments"])

    @rule(who=callers, pick=picks, where=wheres, body=bodies)
    def look(self, who: str | None, pick: int, where: str, body: tuple[int, str, str]) -> None:
        """Every tool that reads or counts; also with the words of other projects in the question."""
        scope, identity = self.scope(who, where, pick), self.id(pick)
        about = self.words(body, [*MARKERS.values(), ""][pick % 4])
        marker = self.marker(who, self.scope_of(identity))
        known = list(self.known.values())
        path = known[pick % len(known)].path if known else "x"
        verdict = ("useful", "wrong", "outdated", "?")[pick % 4]
        calls: tuple[tuple[str, Arguments], ...] = (
            ("memory_search", {"query": about, "scope": scope, "mode": ("keyword", "hybrid")[pick % 2]}),
            ("memory_recall", {"task": about, "scope": scope}),
            ("memory_get", {"id": identity, "scope": scope, "metadata": pick % 2 == 0}),
            ("memory_get", {"address": identity, "as_of": ("now", None)[pick % 2]}),
            ("memory_get", {"source": f"vault/{path}", "scope": scope}),
            ("memory_feedback", {"id": identity, "verdict": verdict, "note": f"says {marker}"}),
            ("snapshot_diff", {"since": "yesterday"}),
            ("memory_status", {}),
            ("review", {"scope": scope}),
        )
        for tool, given in calls:
            self.call("person" if tool == "review" else "agent", who, tool, given)

    @rule(who=callers, pick=picks, where=wheres, body=bodies)
    def keep(self, who: str | None, pick: int, where: str, body: tuple[int, str, str]) -> None:
        scope = self.scope(who, where, pick)
        marker = self.marker(who, scope)
        given = {"text": self.words(body, marker), "name": f"{marker}/log.txt", "scope": scope, "redact": pick % 2 == 0}
        self.call("agent", who, "artifact_add", given)

    @rule(who=callers, picked=st.lists(picks, max_size=4), tool=picks)
    def nonsense(self, who: str | None, picked: list[int], tool: int) -> None:
        """Any parameter of any tool, with any value."""
        names = sorted(self.desk.tools)
        chosen = self.desk.tools[names[tool % len(names)]]
        parameters = [*chosen.schema["properties"], "allow_secret", "status", "overwrite"]
        values: list[Any] = [*NONSENSE, 7, -1, True, [], ["x"], {}, 1e300, "fact", "now", *self.seen[-6:], *self.known]
        given = {parameters[one % len(parameters)]: values[(one * 7 + tool) % len(values)] for one in picked}
        self.call("agent", who, chosen.name, given)

    @rule(seconds=times)
    def wait(self, seconds: int) -> None:
        self.now += seconds
        settle(self.home)

    @rule()
    def restart(self) -> None:
        self.open.close()
        self.start()

    @rule(who=callers, body=bodies, step=st.integers(0, 40), where=wheres)
    def killed_in_an_add(self, who: str | None, body: tuple[int, str, str], step: int, where: str) -> None:
        scope = self.scope(who, where, step)
        self.killed(
            who, "memory_add", {"content": self.words(body, self.marker(who, scope)), "type": "fact"}, scope, step
        )

    @precondition(lambda self: self.plans)
    @rule(who=callers, pick=picks, step=st.integers(0, 50))
    def killed_in_a_change(self, who: str | None, pick: int, step: int) -> None:
        tool, given = self.plans[pick % len(self.plans)]
        self.killed(self.who(who, given["id"]), tool, given, None, step)

    def killed(self, who: str | None, tool: str, given: Arguments, scope: str | None, step: int) -> None:
        """The daemon dies at a step of a call; after a restart the same call is sent again."""
        given = given if scope is None else {**given, "scope": scope}
        self.open.close()
        said = in_child(self.folder / "home", self.caller(who), tool, given, step, self.now)
        self.start()
        before, self.head = self.head, self.home.vault.head() or ""
        if said is not None:
            self.judge(who, tool, given, said, before)
        elif self.head != before:  # it was committed, and nobody was told
            self.known |= {one: taken(file) for one, file in self.files().items() if one not in self.known}
        again = self.call("agent", who, tool, given)
        if said is not None and said.get("outcome") in WRITTEN:
            assert again.get("outcome") == ("exists" if tool == "memory_add" else said["outcome"])

    # what must hold after each of them

    @invariant()
    def holds(self) -> None:
        self.nothing_is_altered_or_lost()
        self.all_of_it_is_readable()
        self.history_only_grows()

    def nothing_is_altered_or_lost(self) -> None:
        head = self.home.vault.head() or ""
        assert head == self.head
        files = self.files()
        assert files.keys() == self.known.keys(), "every memory was acknowledged, and every acknowledged one is there"
        for identity, one in self.known.items():
            now = taken(files[identity])
            assert (now.body, now.frontmatter, now.path) == (one.body, one.frontmatter, one.path)
            before, after = one.status[-1] if one.status else now.status[-1], now.status[-1]
            assert after == before or after in LATER[before], f"{identity} became {after} from {before}"
            one.status.append(after)
        assert self.git("status", "--porcelain") == ""

    def all_of_it_is_readable(self) -> None:
        owners = {scope: name for name, scope in self.scopes.items()}
        for one in self.known.values():
            who = self.caller(owners.get(one.scope))
            read = self.desk.agent(who, "memory_get", {"id": one.id})
            assert read.get("content", "").encode().endswith(one.body), read
            assert (read["id"], read["scope"], read["status"]) == (one.id, one.scope, one.status[-1])

    def history_only_grows(self) -> None:
        if self.last != self.head:
            self.git("merge-base", "--is-ancestor", self.last, self.head)
        self.last = self.head


def taken(file: tuple[str, bytes]) -> Acknowledged:
    """A memory as its file tells it; the body is what follows the frontmatter, to the byte."""
    path, data = file
    fields = entry.parse(data).fields
    body = data.partition(b"\n---\n\n")[2]
    return Acknowledged(fields.id, body, (fields.created, fields.type, fields.scope), path, [fields.status])


def found_in(value: Any) -> Iterator[Any]:
    """Ids and addresses in an answer, and calls that are ready to be made."""
    if isinstance(value, list):
        for one in value:
            yield from found_in(one)
    elif isinstance(value, dict):
        if isinstance(value.get("arguments"), dict) and "tool" in value:
            yield value
        for name, one in value.items():
            if isinstance(one, str) and name in ("id", "address", "fact", "successor", "retired"):
                yield one
            yield from found_in(one)


def in_child(root: Path, who: Caller, tool: str, given: Mapping[str, Any], step: int, now: float) -> Answer | None:
    """A process of its own opens the home, makes the call and is killed at the step; its answer if it came so far."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        left = [-1]

        def fault(_point: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            os.close(reader)
            with opened(root, files=Files(fault), clock=lambda: now) as home:
                desk = Desk(home)
                left[0] = step + 1
                said = json.dumps(desk.agent(who, tool, given))
                left[0] = -1
                os.write(writer, said.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else None


@contextmanager
def wired(desk: Desk, caller: Caller) -> Iterator[None]:
    """The command line without a socket: its calls arrive at the desk as they would through one."""

    def tool(_context: Context, name: str, arguments: Mapping[str, Any]) -> Answer:
        given = {key: value for key, value in arguments.items() if value not in (None, ())}
        answer = desk.person(caller, name, given)
        if answer.pop("error", False):
            raise ToldError(answer)
        return answer

    with mock.patch.object(Context, "tool", tool):
        yield


def shell(desk: Desk, caller: Caller, tool: str, given: Mapping[str, Any]) -> Answer | None:
    """The same call as a command; None where the command line has no words for it."""
    if any("\0" in str(value) or str(value) == "-" for value in given.values()):
        return None  # no shell passes a NUL, and `-` reads standard input
    name = {"memory_add": "remember"}.get(tool, tool.removeprefix("memory_"))
    options = [
        word
        for key in ("type", "title", "key", "scope", "by", "confirm")
        if key in given
        for word in (f"--{key}", given[key])
    ]
    options += [word for one in given.get("tags", ()) for word in ("--tag", one)]
    options += [word for one in given.get("citations", ()) for word in ("--cite", one)]
    words = [given[key] for key in ("id", "content", "reason") if key in given]
    with wired(desk, caller):
        done = CliRunner().invoke(main, ["--home", "unused", name, "--json", *options, "--", *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in (0, 1), done.output
    answer: Answer = json.loads(done.stdout)
    return {"error": True, **answer["error"]} if done.exit_code else answer


Gateway.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=QUICK,
    phases=[Phase.generate] if QUICK else list(Phase),  # making a failure smaller takes longer than a test may
)
TestGateway = Gateway.TestCase
