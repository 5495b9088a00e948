"""Which terms does a text have, for a document and for a query alike?

Two views of one text. *Words*: split at everything that is no letter or digit, English stop words dropped, stemmed.
*Code*: identifiers, paths, flags and versions whole, followed by their parts (`src/foo_bar.py` gives itself,
`foo_bar.py`, `src`, `foo_bar`, `py`, `foo`, `bar`), neither stemmed nor dropped. Scripts written without spaces give
overlapping pairs of characters in both views. The streams hold no characters that an engine could read as syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import tantivy

ANALYSIS_VERSION = 3
"""Changes whenever the same text would give other terms: the index is then built again."""

MAX_TERM = 100
"""Characters of a term that count; longer ones are cut on both sides alike."""

MAX_NAMES = 8
"""Names of files and symbols in a query that are looked up."""

_CACHED_TOKEN = 32
_NAME_MARKS = ("/", ".", "_", "::")
_HUMP = re.compile("[a-z0-9][A-Z]")

_INDIC = "\u0900-\u0963\u0966-\u0dff"
_UNSPACED = "\u0e00-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e80-\u0edf\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u17dc-\u17dd"
_EAST_ASIAN = (
    "\u1100-\u11ff\u3005-\u3007\u3040-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff"
)
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"
# Vowel signs of these scripts are combining marks, which \w leaves out.
_LETTER = rf"\w{_INDIC}{_UNSPACED}"
_TOKEN = re.compile(
    rf"(?<![{_LETTER}-])--?[A-Za-z][\w-]*"  # -f, --dry-run
    rf"|[{_LETTER}]+(?:(?:::|->|[./:@-])[{_LETTER}]+)*(?:\+\+|\#)?"  # foo_bar.baz, a::b, 1.0.21, C++, C#
    rf"|[{_EMOJI}]"
)
_SEGMENT = re.compile(rf"[{_LETTER}]+(?:[.-][{_LETTER}]+)*")
_NAME = re.compile(rf"[{_LETTER}]+")
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_PAIRED = re.compile(rf"[{_UNSPACED}{_EAST_ASIAN}]")
_SCRIPT_RUN = re.compile(rf"[{_UNSPACED}{_EAST_ASIAN}]+|[^{_UNSPACED}{_EAST_ASIAN}]+")
# Accents, points and harakat, and characters that show nothing: the same word is typed with and without them.
_DROPPED = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)

_STOP = (
    "a about above after again against all am an and any are as at be because been before being below between both "
    "but by can d did do does doing down during each few for from further had has have having he her here hers him "
    "his how i if in into is it its just ll m me more most my no nor not now of off on once only or other our out "
    "over own re s same shall she should so some such t than that the their them then there these they this those "
    "through to too under until up us ve very was we were what when where which while who whom whose why will with "
    "would you your"
)
STOP_WORDS = frozenset(_STOP.split())


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """What a query asks for. `words` keeps order and repeats (neighbours matter), `codes` are distinct.

    `prefix` is the last token where nothing stands after it and it may be the beginning of a longer one, else ''.
    """

    words: tuple[str, ...]
    codes: tuple[str, ...]
    prefix: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where wanted terms stand in a text, in characters of the text as given."""

    start: int
    end: int
    terms: frozenset[str]


def word_analyser() -> tantivy.TextAnalyzer:
    """Turns a stream of words into the terms of a word field."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return (
        builder.filter(tantivy.Filter.custom_stopword(sorted(STOP_WORDS)))
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def code_analyser() -> tantivy.TextAnalyzer:
    """Turns a stream of code terms into the terms of a code field."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


_WORDS = word_analyser()


def streams(text: str) -> tuple[str, str]:
    """The text as two lists of terms joined by blanks, for the word and the code analyser."""
    found = [_forms(token) for token in _TOKEN.findall(normalise(text))]
    return " ".join([words for words, _ in found if words]), " ".join([codes for _, codes in found])


def analysed(words: str) -> list[str]:
    """The terms of a stream of words, in order: stop words dropped, stemmed."""
    return _WORDS.analyze(words)


def pairs_of(words: Sequence[str]) -> list[str]:
    """Neighbouring terms as one term each (no term holds an underscore); the same word twice is no pair."""
    return [f"{one}_{other}" for one, other in pairwise(words) if one != other]


@lru_cache(64)  # one search asks several times
def query_terms(text: str) -> QueryTerms:
    """The terms of a query; of one that holds nothing else, stop words count as code terms."""
    text = normalise(text).rstrip()
    matches = list(_TOKEN.finditer(text))
    found = [_forms(match[0]) for match in matches]
    words = tuple(_WORDS.analyze(" ".join([words for words, _ in found])))
    codes = tuple(dict.fromkeys(" ".join([codes for _, codes in found]).split()))
    telling = tuple(code for code in codes if code not in STOP_WORDS)
    last = matches[-1][0] if matches and matches[-1].end() == len(text) else ""
    return QueryTerms(words, telling or codes, _prefix(last) if telling else "")


def exact_names(query: str) -> tuple[str, ...]:
    """What in a query names a file or a symbol: tokens that no prose holds (`src/foo.py`, `Foo.bar`, `foo_bar`,
    `fooBar`), and a query that is one token. A phrase of plain words names nothing."""
    tokens = [token.strip("-") for token in _TOKEN.findall(normalise(query))]
    telling = [token for token in tokens if len(tokens) == 1 or _is_name(token)]
    return tuple(dict.fromkeys(folded_name(token) for token in telling if token))[:MAX_NAMES]


def folded_name(name: str) -> str:
    """A path or symbol as it is compared."""
    return _fold(normalise(name).replace("::", "."))


def _is_name(token: str) -> bool:
    return any(mark in token for mark in _NAME_MARKS) or bool(_HUMP.search(token))


def places(text: str, wanted: frozenset[str]) -> Iterator[Place]:
    """Where any of the `wanted` terms (words or codes of a query) stands in a text, in order."""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token.isascii() or not _PAIRED.search(token):
            terms = _terms(token)
            if not wanted.isdisjoint(terms):
                yield Place(match.start(), match.end(), terms & wanted)
            continue
        for run in _SCRIPT_RUN.finditer(token):
            yield from _places_in_run(run[0], match.start() + run.start(), wanted)


def _places_in_run(run: str, start: int, wanted: frozenset[str]) -> Iterator[Place]:
    if not _PAIRED.match(run):
        if terms := _terms(run) & wanted:
            yield Place(start, start + len(run), terms)
        return
    for at in range(len(run)):
        if terms := wanted & {_fold(normalise(run[at : at + 2])), _fold(normalise(run[at]))}:
            yield Place(start + at, start + min(at + 2, len(run)), terms)


def normalise(text: str) -> str:
    """Compatibility forms made plain, accents and invisible characters dropped; letter case is kept."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _DROPPED.sub("", unicodedata.normalize("NFKD", text)))


def _prefix(token: str) -> str:
    if _PAIRED.search(token):
        run = _SCRIPT_RUN.findall(token)[-1]
        return _fold(run) if len(run) == 1 else ""
    folded = _fold(token)
    return folded if len(folded.lstrip("-")) >= 2 and folded not in STOP_WORDS else ""


@lru_cache(4096)
def _terms(token: str) -> frozenset[str]:
    words, codes = _forms(normalise(token))
    return frozenset(_WORDS.analyze(words)).union(codes.split())


def _fold(text: str) -> str:
    return text.casefold()[:MAX_TERM]


def _forms(token: str) -> tuple[str, str]:
    if len(token) > _CACHED_TOKEN:
        return _make_forms(token)
    # Most tokens are plain words or numbers: there is nothing to take apart, and the cache stays free for the others.
    if token.isalnum() and token.isascii() and (token[1:].islower() or token.islower() or token.isdigit()):
        token = token.lower()
        return token, token
    return _cached_forms(token)


def _make_forms(token: str) -> tuple[str, str]:
    if not token.isascii() and _PAIRED.search(token):
        return _forms_of_runs(token)
    words: list[str] = []
    codes = [_fold(token)]
    codes += [_fold(segment) for segment in _SEGMENT.findall(token)]
    for name in _NAME.findall(token):
        codes.append(_fold(name))
        for part in name.split("_"):
            if part:
                words.append(_fold(part))
                codes += [_fold(hump) for hump in _CAMEL.findall(part)] if part.isascii() else [_fold(part)]
    return " ".join(words), " ".join(dict.fromkeys(codes))


_cached_forms = lru_cache(8192)(_make_forms)


def _forms_of_runs(token: str) -> tuple[str, str]:
    words: list[str] = []
    codes: list[str] = []
    for run in _SCRIPT_RUN.findall(token):
        if _PAIRED.match(run):
            # The last character stands alone too: with pairs as prefixes, every single character is findable.
            pairs = [_fold(run[at : at + 2]) for at in range(len(run))]
            words += pairs
            codes += pairs
        else:
            inner = [_make_forms(part) for part in _TOKEN.findall(run)]
            words += [inner_words for inner_words, _ in inner]
            codes += [inner_codes for _, inner_codes in inner]
    return " ".join(filter(None, words)), " ".join(filter(None, codes))
