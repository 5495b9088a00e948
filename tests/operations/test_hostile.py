"""Is a query data, whatever stands in it? Cases 41 and 42, H24 and H25: the whole memory_search, one home for all."""

from __future__ import annotations

import random

import pytest

from memoryd.errors import BadCharacters, InvalidInput
from memoryd.operations import reading
from memoryd.operations.home import Caller
from memoryd.operations.ingest import Seen, store_documents
from memoryd.runtime import RuntimePaths
from memoryd.server.tools import MemoryToolbox
from tests.operations.conftest import configure, index_words, opened

HERE = Caller()
QUERIES = 1000
TEXTS = {
    "badger.md": "The badger cache lives for ten minutes.",
    "wombat.md": "A wombat digs at night, and badgers do too.",
    "delivery.md": "The delivery backlog tasks are listed here.",
    "delivery/backlog/tasks.md": "Nothing of that kind.",
    "task.md": "See task-6 for the release of 1.0.21, and task-7 for 1.0.22.",
    "code.md": "Call foo_bar.baz() in foo/bar.py; pass -flag or --dry-run. Then y+(y+3) holds.",
    "cpp.md": "Written in C++ and partly in C#.",
    "link.md": "see:http://host.example/x for more; title: none.",
    "clause.md": "数据库连接池的配置说明书在此。",
    "japanese.md": "東京都の天気予報は晴れです。",
    "mixed.md": "Redis の接続設定 in the Wiki.",
    "russian.md": "Кэш живёт десять минут.",
    "thai.md": "แคชมีอายุสิบนาที",
    "arabic.md": "ذاكرة التخزين المؤقت",
    "combining.md": "Le cafe\u0301 est ferme\u0301 le mardi.",
    "rocket.md": "We ship it 🚀 today.",
    **{f"filler{n}.md": f"Ordinary words about nothing number {n} at all." for n in range(40)},
}
SIGNS = [
    *"\"'()[]{}^~*?!&|\\<>=,;`$%",
    "&&",
    "||",
    '"(',
    "))",
    "\x00",
    "\x07",
    "\x1b[",
    "\ud800",
    "\u202e",
    "\ufeff",
]
"""What no term is made of: taken in between words it changes nothing."""
WORDS = [
    "badger",
    "AND",
    "OR",
    "NOT",
    "TO",
    "title:",
    "+badger",
    "-cache",
    "^2",
    "wombat~1",
    "foo/bar.py",
    "C++",
    "the",
]
OTHERS = [
    "🚀",
    "数据库",
    "แคช",
    "ذاكرة",
    "cafe\u0301",
    "\u0301",
    "\u200d",
    "🏳️‍🌈",
    "x" * 300,
    "\n\n",
    "\t",
    "..",
    "://",
    "--",
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    root = tmp_path_factory.mktemp("hostile") / "home"
    configure(root, search={"model_wait_ms": 60_000})
    with opened(root) as home:
        seen = [Seen("t", name.encode(), "global", "document", text.encode()) for name, text in TEXTS.items()]
        store_documents(home, seen)
        index_words(home)
        yield home


def ask(home, query, mode="keyword", **given):
    return reading.search(home, HERE, query=query, mode=mode, **given)


def names(answer):
    return [one["source"].removeprefix("t/") for one in answer["memories"]]


def made(chance):
    """One query of anything at all."""
    kind = chance.random()
    if kind < 0.05:
        return " ".join(chance.choice(["the", "and", "of", "to", "is", "not"]) for _ in range(chance.randrange(1, 9)))
    if kind < 0.1:
        return "".join(chr(chance.choice([chance.randrange(0x110000), chance.randrange(0x250)])) for _ in range(30))
    parts = [chance.choice(chance.choice([SIGNS, WORDS, OTHERS])) for _ in range(chance.randrange(1, 12))]
    return chance.choice(["", " "]).join(parts)


def test_a_thousand_hostile_queries_never_raise(stored):
    """Case 41: results or none, never an error; every answer is whole and within its bounds."""
    chance = random.Random(24)
    found = 0
    for _ in range(QUERIES):
        query = made(chance)
        if not query.strip():
            continue
        answer = ask(stored, query)
        assert answer["index"]["degraded"] == [] and len(answer["memories"]) <= 8, repr(query)
        found += bool(answer["memories"])
    assert found > QUERIES / 2, "most of them hold a word that stands somewhere"


def test_signs_between_words_make_no_other_query(stored):
    """Quotes, brackets and operators neither exclude nor require nor name fields: the words alone count."""
    chance = random.Random(25)
    bases = ["badger cache minutes", "wombat night", "delivery backlog tasks", "数据库连接池", "foo/bar.py dry"]
    plain = {base: ask(stored, base) for base in bases}
    for _ in range(200):
        base = chance.choice(bases)
        words = base.split()
        query = "".join(f" {''.join(chance.choices(SIGNS, k=chance.randrange(4)))} {word}" for word in words)
        assert ask(stored, query)["memories"] == plain[base]["memories"], repr(query)


@pytest.mark.parametrize(
    "query",
    [
        "-badger",
        "+badger",
        "NOT badger",
        "badger AND nowhere",
        "nowhere OR badger",
        "title:badger",
        "badger^0",
        "badger~2",
    ]
    + [
        "[a TO badger]",
        "{badger TO z}",
        "/badger/",
        'say "badger',
        "badger)",
        "NOT (badger)",
        "badger -badger",
        "badger*",
    ],
)
def test_words_that_engines_take_for_operators_exclude_nothing(stored, query):
    """H24: what stands in the text is found first, whatever sign stands at the word."""
    assert "badger.md" in names(ask(stored, query))[:2]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("task-6", "task.md"),
        ("1.0.21", "task.md"),
        ("foo/bar.py", "code.md"),
        ("foo_bar.baz()", "code.md"),
        ("-flag", "code.md"),
        ("--dry-run", "code.md"),
        ("y+(y+3)", "code.md"),
        ("C++", "cpp.md"),
        ("see:http://host.example/x", "link.md"),
        ("title:", "link.md"),
        ('"C++ and', "cpp.md"),
        ("🚀", "rocket.md"),
    ],
)
def test_literal_tokens_find_what_holds_them(stored, query, name):
    """Case 41 and H24."""
    assert names(ask(stored, query))[0] == name


def test_a_phrase_that_looks_like_a_path_is_not_hijacked(stored):
    """Case 42: the document that says it comes before the one whose path it resembles."""
    assert names(ask(stored, "delivery backlog tasks"))[0] == "delivery.md"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("连接池的", "clause.md"),
        ("配置说明", "clause.md"),
        ("天気予報", "japanese.md"),
        ("Redis 接続設定", "mixed.md"),
        ("接続", "mixed.md"),
        ("десять минут", "russian.md"),
        ("КЭШ", "russian.md"),
        ("อายุสิบ", "thai.md"),
        ("التخزين", "arabic.md"),
        ("caf\u00e9", "combining.md"),
        ("cafe\u0301", "combining.md"),
        ("cafe ferme", "combining.md"),
    ],
)
def test_other_scripts_are_found_by_words_alone(stored, query, name):
    """Case 47 and H25: CJK, Cyrillic, Thai, Arabic, combining marks; a middle part of a clause without blanks."""
    assert names(ask(stored, query))[0] == name


def test_long_queries_and_those_of_stop_words_only(stored):
    """Case 41: 300 words, 100 kB, nothing but stop words."""
    abstract = " ".join(["The badger cache is discussed at length in this abstract about caches"] * 30)
    assert names(ask(stored, abstract))[0] == "badger.md"
    for query in ("badger " + "x" * 100_000, "badger " * 15_000, "badger " + '"(' * 50_000):
        assert names(ask(stored, query))[0] == "badger.md"
    assert names(ask(stored, "the of and to at"))


def test_a_blank_query_is_refused_politely(stored):
    """H24: only spaces, the empty string."""
    for blank in ("", "   ", "\n\t\u3000"):
        with pytest.raises(InvalidInput, match="blank"):
            ask(stored, blank)


def test_the_model_takes_them_too(stored):
    """The semantic leg: no text ends the model's process or the search."""
    for query in ["\ud800", "\x00\x01", "🏳️‍🌈", "]" * 99_999, "badger " * 15_000, "\u0301" * 500, '" AND (']:
        for mode in ("semantic", "hybrid"):
            answer = ask(stored, query, mode=mode)
            assert [one for one in answer["index"]["degraded"] if one["leg"] in ("dense", "lexical")] == [], repr(query)
    assert stored.host.status()["restarts"] == 0


def test_a_session_is_told_which_character_cannot_be(tmp_path):
    """What JSON carries and no text can hold is refused by name before anything is asked."""
    search = MemoryToolbox(RuntimePaths(str(tmp_path / "home"))).named("memory_search")
    for query in ("a\ud800b", "a\0b"):
        with pytest.raises(BadCharacters, match="`query`"):
            search.checked({"query": query})
