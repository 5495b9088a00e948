"""Where does a text give a value to something called a password, a secret, a token or a key?

`password = "..."`, `api_key: ...`, `--token ...`, `<password>...</password>`, `Bearer ...`, `//user:...@host`. How much
a value must look like a credential depends on how sure the place is: a whole line `PASSWORD=...` or quotes after
`password` are, a bare word after `token` in a sentence is not. Every pattern looks at a bounded piece of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from memoryd.extract.likeness import password_like, placeholder, random_looking

_WORDS = ("passw", "passphrase", "pwd", "secret", "token", "key", "credential")
_NAME = r"(?P<name>passw(?:or)?d|passphrase|pwd|secret|token|credentials?|key)"
_REST = r"(?P<rest>[A-Za-z0-9_-]{0,24})"
_AFTER = r"(?:\\?[\"'`]?\]?|\*\*|\*)"
_SIGN = r"[ \t]{0,8}(?::[ \t]?[A-Za-z]{1,12}[ \t]?=|[:=]=?>?|={2,3}|!==?|->|>|(?:is|was)[ \t:])[ \t*]{0,8}"
_QUOTED = r"[@bBrRuU]?(?P<quote>[\"'`])(?P<quoted>[^\s\"'`]{4,300}?)\\?(?P=quote)"
_PLAIN = r"[^\s\"'`<>(){}\[\],;\\|:=]"
_BARE = rf"(?P<bare>{_PLAIN}{{1,200}}(?:[:=]{_PLAIN}{{0,99}}){{0,3}})"
_ASSIGNED = rf"{_NAME}{_REST}{_AFTER}{_SIGN}(?:\\?{_QUOTED}|{_BARE})"
_FLAG = rf"{_NAME}(?P<rest>)[ \t]{{1,4}}(?:{_QUOTED}|{_BARE})"
_KEY_OF = re.compile(
    r"(?:api|access|auth|account|secret|private|encryption|encrypt|signing|service|master|client|database|db|storage|"
    r"shared|webhook|subscription|admin|app|deploy|session|jwt|hmac|license|licence)[ _-]?\Z",
    re.IGNORECASE,
)
"""Before `key`: a key alone may be one of a mapping, a sort or a keyboard."""
_NO_SECRET = re.compile(
    r"hash|digest|sum|_?id|name|file|path|dir|url|uri|count|len|limit|max|min|size|type|kind|class|regex|pattern|salt|"
    r"format|version|policy|expir|ttl|age|field|input|label|hint|prompt|prefix|suffix|start|end|izer|ize|manager|store|ring|board|word|index",
    re.IGNORECASE,
)
"""After the word: what a name goes on with that is about a credential, not the credential."""
_NOT_THEIRS = re.compile(
    r"(?:public|public_?key|primary|foreign|sort|partition|cache|max|next|page|csrf|num)[ _-]?\Z", re.IGNORECASE
)
_PART = re.compile(r"(?:::|arn:\S{0,80}:)[A-Za-z0-9_-]*\Z")
"""Before the word: it is a part of a longer name of other things."""
_LINE = re.compile(r"(?:export[ ]|set[ ]|ENV[ ]|[-*][ ])?[\"']?[A-Za-z0-9_.-]*\Z")
_OPTION = re.compile(r"(?<![^\s\"'`(\[,])--[A-Za-z0-9_-]*\Z")
_VARIABLE = re.compile(r"(?:\A|\s)[A-Z0-9_]*\Z")
_LOGIN = re.compile(r"login[ \t]+\S{1,64}[ \t]+\Z")
_BEARER = r"(?:bearer|basic)[ ]+(?P<value>[A-Za-z0-9._~+/=-]{16,4000})"
_USERINFO = r"://(?P<user>[^\s/?#:@\"'<>`\\]{0,100}):(?P<value>[^\s/?\"'<>`\\]{3,200})@(?=[A-Za-z0-9\[])"
_TRAILING = ".,:*"

Span = tuple[str, int, int]


def assignments(text: str) -> Iterator[Span]:
    """(kind, start, end) of each value that is given to a credential's name and looks like one."""
    lower = text.replace("İ", "I").lower()  # the one letter whose lower case is longer than it
    for word in _WORDS:
        yield from _after_word(text, lower, word)
    for word in ("bearer ", "basic "):
        yield from _after_scheme(text, lower, word)
    yield from _in_addresses(text)


def _after_word(text: str, lower: str, word: str) -> Iterator[Span]:
    at = lower.find(word)
    while at >= 0:
        after = at + len(word)
        if word != "key" or _KEY_OF.search(lower, max(0, at - 14), at):
            found = _value(text, at)
            if found is not None:
                yield "assigned-secret", *found
                after = found[1]
        at = lower.find(word, after)


def _value(text: str, at: int) -> tuple[int, int] | None:
    """Where the value stands that is given to the word at `at`, if it looks like a credential."""
    before = text[max(0, at - 90) : at]
    match = _compiled(_ASSIGNED).match(text, at) or _option(text, at, before)
    if match is None:
        return None
    start, end = match.span("quoted" if match["quoted"] is not None else "bare")
    if match["quoted"] is None:
        end = start + len(text[start:end].rstrip(_TRAILING))
    value, name = text[start:end], match["name"].lower()
    if not _looks_real(value, name, sure=True) or _is_of_something_else(text, match, before):
        return None
    return (start, end) if _is_sure(text, match, before) or _looks_real(value, name, sure=False) else None


def _option(text: str, at: int, before: str) -> re.Match[str] | None:
    """`--password VALUE`, and `login NAME password VALUE` as in a .netrc."""
    line = before.rpartition("\n")[2]
    return _compiled(_FLAG).match(text, at) if _OPTION.search(line) or _LOGIN.search(line) else None


def _is_of_something_else(text: str, match: re.Match[str], before: str) -> bool:
    """Whether the name is another thing's (`public_key`, `password_hash`), or the value what a program works out."""
    if _NOT_THEIRS.search(before, max(0, len(before) - 14)) or _PART.search(before) or _NO_SECRET.search(match["rest"]):
        return True
    return match["quoted"] is None and _goes_on(text, match)


def _goes_on(text: str, match: re.Match[str]) -> bool:
    """Whether a value without quotes is the beginning of a call or an index, or of an element that is not closed."""
    following = text[match.end() : match.end() + 2]
    if text[match.start("bare") - 1] == ">":
        return following != "</"
    return following[:1] in ("(", "[", "{")


def _is_sure(text: str, match: re.Match[str], before: str) -> bool:
    """Whether the place leaves little doubt: quotes, an element, an option, `NAME=...`, or a whole line `name: ...`."""
    line = before.rpartition("\n")[2].lstrip(" \t")
    if match["quoted"] is not None or text[match.start("bare") - 1] == ">" or _OPTION.search(line):
        return True
    head = text[match.start() : match.start("bare")]
    if head.isupper() and head.endswith("=") and _VARIABLE.search(line):
        return True  # a variable of the environment, perhaps with a command behind it
    ends = match.end() == len(text) or text[match.end()] in "\r\n<"
    return ends and _LINE.match(line) is not None and text[match.start("bare") - 1] in "=: \t"


def _looks_real(value: str, name: str, *, sure: bool) -> bool:
    """Whether the value looks like a credential, for one that stands in a `sure` place or elsewhere."""
    if name.startswith("pass") or name == "pwd":
        real = password_like(value) if sure else len(value) >= 8 and random_looking(value)
    else:
        real = len(value) >= (12 if sure else 16) and random_looking(value) and "://" not in value
    return real and not placeholder(value)


def _after_scheme(text: str, lower: str, word: str) -> Iterator[Span]:
    pattern, at = _compiled(_BEARER), lower.find(word)
    while at >= 0:
        after = at + len(word)
        match = pattern.match(text, at)
        if match is not None:
            after = match.end()
            value = match["value"].rstrip(_TRAILING)
            if not placeholder(value) and random_looking(value):
                yield "authorization", match.start("value"), match.start("value") + len(value)
        at = lower.find(word, after)


def _in_addresses(text: str) -> Iterator[Span]:
    """Passwords of addresses such as `https://user:password@host`."""
    pattern, at = _compiled(_USERINFO), text.find("://")
    while at >= 0:
        after = at + 3
        match = pattern.match(text, at)
        if match is not None:
            after = match.end()
            value = match["value"]
            if not (value == match["user"] or value.isdigit() or placeholder(value)):
                yield "password-in-address", *match.span("value")
        at = text.find("://", after)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
