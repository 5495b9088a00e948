"""Do hits come with what stands around them: the whole definition or section, the turns before and after?"""

from __future__ import annotations

import pytest

from memoryd.operations import gateway, reading
from memoryd.operations.brief import recall
from memoryd.operations.enclosing import numbered_beside
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from memoryd.operations.scan import scan_corpora
from tests.operations.conftest import configure, index_words, opened

HERE = Caller()
TOKENS = 1500


def steps(first: int, last: int) -> str:
    return "".join(
        f"        total += self.weigh(item, {n})  # step number {n} of the sum\n" for n in range(first, last)
    )


CODE = (
    "import os\n\n\nclass Ledger(Base):\n    '''Holds what is owed.'''\n\n    rate = 3\n\n"
    + "".join(f"    def helper_{n}(self):\n        return '{'word ' * 40}'\n\n" for n in range(12))
    + f"    def add_up(\n        self, item\n    ) -> int:\n        total = 0\n{steps(0, 30)}        wombat = total\n"
    + f"{steps(30, 60)}        return total\n\n    def last(self):\n        return 'last'\n"
)
SECTIONS = (
    "# Guide\n\nWhat this is.\n\n## Feeding\n\n"
    + "\n\n".join(f"Paragraph {n} tells {'how animals eat ' * 15}in room {n}." for n in range(8))
    + "\n\n## Sleeping\n\n"
    + f"{'Nobody sleeps here. ' * 60}\n"
)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A home with code, a long section, a conversation in numbered files and one in a single file; no model needed."""
    folder = tmp_path_factory.mktemp("zoo")
    docs = folder / "docs"
    (docs / "talk").mkdir(parents=True)
    (docs / "ledger.py").write_text(CODE)
    (docs / "guide.md").write_text(SECTIONS.replace("room 4", "the axolotl room"), newline="\r\n")
    for number in (8, 9, 10, 12):
        (docs / "talk" / f"turn{number}.txt").write_text(f"Ann: We say number {number}, numbat{number}.\n")
    for number in (1, 2, 3):
        (docs / "talk" / f"note{number}.txt").write_text(f"No speaker at all in jackal{number}.\n")
    said = [f"## {'User' if n % 2 else 'Assistant'}\n\n{'Some words said. ' * 40}It was quokka{n}.\n" for n in range(6)]
    (docs / "session.md").write_text("\n".join(said))
    root = folder / "home"
    corpora = [{"label": "d", "path": str(docs), "include": ["**/*"], "code": True}]
    configure(root, corpora=corpora, search={"excerpt_tokens": TOKENS})
    with opened(root) as home:
        scan_corpora(home)
        index_words(home)
        yield home


def first(home, query, **given):
    return reading.search(home, HERE, query=query, mode="keyword", **given)["memories"][0]


def is_exact(home, piece):
    """A piece says byte for byte what stands at its place, on those lines."""
    data = home.store.read(piece["address"])
    start, end = piece["bytes"]
    assert data[start:end].decode() == piece["content"]
    lines = data.decode().splitlines()[piece["lines"][0] - 1 : piece["lines"][1]]
    said = piece["content"].splitlines()
    assert len(said) == len(lines) and all(part in line for part, line in zip(said, lines, strict=True))


def test_a_hit_in_code_shows_its_whole_definition_and_where_that_belongs(zoo):
    hit = first(zoo, "wombat", max_results=1)
    is_exact(zoo, hit)
    assert hit["symbol"] == "Ledger.add_up"
    assert hit["content"].lstrip().startswith("def add_up(") and hit["content"].rstrip().endswith("return total")
    (around,) = hit["within"]
    assert (around["symbol"], around["content"]) == ("Ledger", "class Ledger(Base):")
    is_exact(zoo, around | {"address": hit["address"]})


def test_a_definition_that_does_not_fit_names_its_first_lines(zoo):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, 420))
        hit = first(zoo, "wombat", max_results=1)
    assert "wombat" in hit["content"] and "def add_up" not in hit["content"]
    assert [one["symbol"] for one in hit["within"]] == ["Ledger", "Ledger.add_up"]
    assert hit["within"][1]["content"] == "def add_up(\n        self, item\n    ) -> int:"
    is_exact(zoo, hit["within"][1] | {"address": hit["address"]})


def with_tokens(config, tokens):
    return config.model_copy(update={"search": config.search.model_copy(update={"excerpt_tokens": tokens})})


@pytest.mark.parametrize("tokens", [100, 400, 700, 1500])
def test_a_hit_shows_as_much_of_its_section_as_fits(zoo, tokens):
    """Offsets, lines and content stay exact, also where lines end with CRLF."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, tokens))
        hit = first(zoo, "axolotl", max_results=1)
        total = sum(len(one["content"].encode()) for one in reading.search(zoo, HERE, query="eat how")["memories"])
    is_exact(zoo, hit)
    assert "axolotl" in hit["content"] and "Nobody sleeps" not in hit["content"]
    assert len(hit["content"].encode()) <= tokens * 4 and total <= tokens * 4
    assert hit["context"] == "Guide > Feeding"
    shown = [n for n in range(8) if f"Paragraph {n} " in hit["content"]]
    assert len(shown) >= {100: 1, 400: 3, 700: 5, 1500: 8}[tokens]


def test_a_turn_in_a_file_of_its_own_shows_those_before_and_after(zoo):
    hit = first(zoo, "numbat9", max_results=1)
    assert [hit[name]["source"] for name in ("before", "after")] == ["d/talk/turn8.txt", "d/talk/turn10.txt"]
    for name in ("before", "after"):
        is_exact(zoo, hit[name])
    assert "before" not in first(zoo, "numbat12", max_results=1), "number 11 is not there"
    assert "before" not in first(zoo, "jackal2", max_results=1), "nobody speaks in it"


def test_a_turn_of_a_transcript_shows_those_before_and_after(zoo):
    hit = first(zoo, "quokka2", max_results=1)
    is_exact(zoo, hit)
    assert [n for n in range(6) if f"quokka{n}" in hit["content"]] == [0, 1, 2, 3, 4, 5]


def test_the_most_relevant_hit_shows_its_section_also_among_others(zoo):
    """Eight results that would use up the budget evenly: the best one may still show what stands beside its words."""
    query = "said words animals eat axolotl step number"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, 600))
        shown = reading.search(zoo, HERE, query=query, mode="keyword")["memories"]
    sizes = [len(one["content"].encode()) for one in shown]
    assert len(shown) > 2 and sum(sizes) <= 2400
    assert shown[0]["source"] == "d/guide.md" and "axolotl" in shown[0]["content"]
    assert len([n for n in range(8) if f"Paragraph {n} " in shown[0]["content"]]) > 1
    is_exact(zoo, shown[0])


def test_hits_take_of_the_budget_by_their_relevance(home, project):
    """Two sections of the same size, one of which holds all of the question's words."""
    filling = "\n\n".join(f"Sentence {n} about {'nothing at all and more of it ' * 6}." for n in range(20))
    for name, words in (("strong", "the wombat digs its burrow at night"), ("weak", "a burrow elsewhere")):
        text = f"# {name}\n\n{filling}\n\nHere {words}.\n\n{filling}\n"
        store_documents(home, [Seen("t", f"{name}.md".encode(), "global", "document", text.encode())])
    index_words(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.loaded, "config", with_tokens(home.config, 1500))
        shown = reading.search(home, HERE, query="does the wombat dig its burrow at night", mode="keyword")["memories"]
    sizes = {one["title"]: len(one["content"]) for one in shown}
    share = shown[1]["relevance"] / shown[0]["relevance"]
    assert list(sizes) == ["strong", "weak"] and share < 0.5
    assert sizes["weak"] < 0.6 * sizes["strong"], "an even split would give both the same"
    assert sizes["weak"] > 100


def test_first_lines_cost_a_hit_no_more_than_their_own_room(zoo):
    """Whatever the budget, a definition grows as far as it fits beside the first lines of what it belongs to."""
    for tokens in [*range(500, 1060, 4), 1500, 2000]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, tokens))
            hit = first(zoo, "wombat", max_results=1)
        size = len(hit["content"].encode())
        assert size + sum(len(one["content"]) for one in hit["within"]) <= tokens * 4
        assert size >= min(4000, tokens * 4 - 1500), f"{tokens}: all but a passage and the first lines"


@pytest.mark.parametrize("tokens", [60, 100, 150, 300, 420, 600, 1500])
@pytest.mark.parametrize("query", ["wombat total helper", "said words animals eat step number", "numbat9 say number"])
def test_everything_that_is_shown_keeps_to_the_budget(zoo, tokens, query):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, tokens))
        answer = reading.search(zoo, HERE, query=query, mode="keyword", max_results=20)
    shown = [part for one in answer["memories"] for part in (one, *one.get("within", ()))]
    shown += [one[name] for one in answer["memories"] for name in ("before", "after") if name in one]
    assert sum(len(part["content"].encode()) for part in shown) <= tokens * 4


def test_turns_are_not_shown_where_the_budget_is_used_up(zoo):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zoo.loaded, "config", with_tokens(zoo.config, 150))
        answer = reading.search(zoo, HERE, query="said words animals eat step number", mode="keyword")
    assert sum(len(one["content"].encode()) for one in answer["memories"]) <= 600
    assert not any("before" in one for one in answer["memories"])


def test_a_brief_shows_the_found_words_and_not_what_stands_before_them(zoo):
    brief = recall(zoo, HERE, task="the axolotl room")["brief"]
    assert "Paragraph" in brief and "Paragraph 0" not in brief


def test_turns_of_another_scope_are_not_shown(home, project):
    mine = project("mine")
    scope = gateway.add(home, mine, content="A memory of mine.", type="note")["scope"]
    for number, holder in ((1, "global"), (2, scope), (3, "global")):
        store_documents(home, [Seen("t", b"%d" % number, holder, "document", b"Ann: quokka %d" % number)])
    index_words(home)
    hit = reading.search(home, mine, query="quokka 2", mode="keyword", scope=scope)["memories"][0]
    assert hit["source"] == "t/2" and "before" not in hit and "after" not in hit


def test_the_same_text_is_shown_once_with_the_other_places(home, project):
    """Blanks do not matter; places outside the caller's scopes are never named."""
    mine, other = project("mine"), project("other")
    scopes = [gateway.add(home, one, content="A memory.", type="note")["scope"] for one in (mine, other)]
    seen = [Seen("t", b"a%d" % n, "global", "document", b"The  emu runs.\n" + b"\n" * n) for n in range(9)]
    seen += [
        Seen("t", b"mine", scopes[0], "document", b"The emu\nruns."),
        Seen("t", b"x", "global", "document", b"emu"),
    ]
    seen += [Seen("t", b"other", scopes[1], "document", b"The emu runs.")]
    store_documents(home, seen)
    index_words(home)
    answer = reading.search(home, mine, query="the emu runs", mode="keyword", max_results=20)
    one, last = answer["memories"]
    assert last["source"] == "t/x" and "also" not in last
    named = {one["source"], *one["also"]}
    assert len(named) == 6 and one["also_more"] == 4 and "t/other" not in named
    outside = reading.search(home, Caller(), query="the emu runs", mode="keyword", max_results=20)
    assert outside["memories"][0]["also_more"] == 3


@pytest.mark.parametrize(
    ("path", "step", "beside"),
    [
        (b"a/D1:9", 1, [b"a/D1:10"]),
        (b"a/D1:10", -1, [b"a/D1:09", b"a/D1:9"]),
        (b"a/0009.txt", 1, [b"a/0010.txt", b"a/10.txt"]),
        (b"a/0.txt", -1, []),
        (b"conv-26/notes.txt", 1, []),
    ],
)
def test_numbers_of_neighbours(path, step, beside):
    assert numbered_beside(path, step) == beside
