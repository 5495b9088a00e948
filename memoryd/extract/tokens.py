"""Which pieces of a text have the shape that a provider gives to its credentials?

Each shape begins with letters that its provider publishes; they are looked for as plain words, and only where one
stands is a pattern tried, over a bounded run. Nothing here knows whether a credential is valid, or asks anybody.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from memoryd.extract.likeness import made_up

_HEX = "0-9a-f"
_ALNUM = "A-Za-z0-9"
_GITLAB = tuple(f"gl{name}-" for name in ("pat", "dt", "rt", "cbt", "ptt", "ft", "imt", "agent", "soat", "oas"))
_WORD = r"A-Za-z0-9_\-"


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of credential: how it begins, and how many of which characters follow."""

    kind: str
    starts: tuple[str, ...]
    letters: str
    least: int
    most: int = 255

    @property
    def rest(self) -> re.Pattern[str]:
        """What follows one of the beginnings, to its end."""
        return _rest(self.letters, self.least, self.most)


SHAPES = (
    Shape("aws-access-key", ("AKIA", "ASIA", "ABIA", "ACCA"), "A-Z0-9", 16, 16),
    Shape("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _ALNUM, 36),
    Shape("github-token", ("github_pat_",), "A-Za-z0-9_", 36),
    Shape("gitlab-token", _GITLAB, _WORD, 20),
    Shape("slack-token", ("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), _WORD, 20),
    Shape("slack-webhook", ("hooks.slack.com/services/T", "hooks.slack.com/workflows/T"), "A-Za-z0-9_/", 20),
    Shape("discord-webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), f"{_WORD}/", 60),
    Shape("stripe-key", ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"), _ALNUM, 16),
    Shape("npm-token", ("npm_",), _ALNUM, 36),
    Shape("pypi-token", ("pypi-AgEIcHlwaS5vcmc", "pypi-AgENdGVzdC5weXBpLm9yZw"), _WORD, 50),
    Shape("anthropic-key", ("sk-ant-",), _WORD, 24),
    Shape("openai-key", ("sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"), _WORD, 24),
    Shape("openai-key", ("sk-",), _ALNUM, 32),
    Shape("openrouter-key", ("sk-or-",), _WORD, 32),
    Shape("google-key", ("AIza",), _WORD, 35, 35),
    Shape("google-oauth-secret", ("GOCSPX-",), _WORD, 28),
    Shape("google-oauth-token", ("ya29.",), _WORD, 24),
    Shape("huggingface-token", ("hf_",), _ALNUM, 30),
    Shape("groq-key", ("gsk_",), _ALNUM, 40),
    Shape("xai-key", ("xai-",), _ALNUM, 60),
    Shape("perplexity-key", ("pplx-",), _ALNUM, 40),
    Shape("replicate-token", ("r8_",), _ALNUM, 37),
    Shape("sendgrid-key", ("SG.",), f"{_WORD}.", 60),
    Shape("twilio-key", ("SK",), _HEX, 32, 32),
    Shape("mailgun-key", ("key-",), _HEX, 32, 32),
    Shape("square-token", ("sq0csp-", "sq0atp-", "sq0idp-"), _WORD, 22),
    Shape("shopify-token", ("shpat_", "shpss_", "shpca_", "shppa_"), _HEX, 32),
    Shape("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), _HEX, 64),
    Shape("databricks-token", ("dapi",), _HEX, 32),
    Shape("docker-token", ("dckr_pat_", "dckr_oat_"), _WORD, 20),
    Shape("doppler-token", ("dp.pt.", "dp.st.", "dp.sa."), f"{_WORD}.", 40),
    Shape("linear-key", ("lin_api_",), _ALNUM, 32),
    Shape("notion-token", ("ntn_",), _ALNUM, 40),
    Shape("figma-token", ("figd_",), _WORD, 36),
    Shape("newrelic-key", ("NRAK-",), "A-Z0-9", 24),
    Shape("grafana-token", ("glsa_", "glc_eyJ"), f"{_WORD}+/=", 32),
    Shape("sentry-token", ("sntrys_", "sntryu_"), f"{_WORD}+/=", 40),
    Shape("vault-token", ("hvs.", "hvb.", "hvr."), _WORD, 24),
    Shape("terraform-token", (".atlasv1.",), _WORD, 60),
    Shape("postman-key", ("PMAK-",), f"{_HEX}-", 50),
    Shape("rubygems-key", ("rubygems_",), _HEX, 48),
    Shape("supabase-token", ("sbp_",), _HEX, 40),
    Shape("planetscale-token", ("pscale_tkn_", "pscale_oauth_", "pscale_pw_"), f"{_WORD}.", 32),
    Shape("atlassian-token", ("ATATT3x",), f"{_WORD}=", 60),
    Shape("bitbucket-token", ("ATBB", "ATCTT3x"), f"{_WORD}=", 28),
    Shape("artifactory-key", ("AKCp",), _ALNUM, 60, 80),
    Shape("age-key", ("AGE-SECRET-KEY-1",), "A-Z0-9", 58, 58),
    Shape("azure-storage-key", ("AccountKey=",), "A-Za-z0-9+/=", 86, 90),
)
"""As the providers document them; the newest beginnings first where one is a beginning of another."""

_START = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))"
_FREE = {
    "telegram-token": (":AA", rf"{_START}[0-9]{{8,10}}:AA[A-Za-z0-9_-]{{33}}(?![A-Za-z0-9_-])"),
    "mailchimp-key": ("-us", rf"{_START}[0-9a-f]{{32}}-us[0-9]{{1,2}}(?![0-9A-Za-z])"),
    "discord-token": (
        ".",
        rf"{_START}[MNO][A-Za-z0-9_-]{{23,25}}\.[A-Za-z0-9_-]{{6}}\.[A-Za-z0-9_-]{{27,38}}(?![A-Za-z0-9_-])",
    ),
}
"""Shapes whose first letters vary: what they hold anyway, and the whole pattern."""

_ESCAPED = re.compile(r"(?:\\[nrtfv]|%[0-9A-Fa-f]{2}|\\u00[0-9a-f]{2}|\\x[0-9a-f]{2})\Z")
_JWT = r"[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{4,8000}\.[A-Za-z0-9_-]{16,2000}"

Span = tuple[str, int, int]


def tokens(text: str) -> Iterator[Span]:
    """(kind, start, end) of everything that has the shape of a credential and is no made-up example."""
    for shape in SHAPES:
        for start in shape.starts:
            yield from _of_shape(text, shape, start)
    for kind, (needed, pattern) in _FREE.items():
        if needed in text:
            found = _compiled(pattern).finditer(text)
            yield from ((kind, *match.span()) for match in found if not made_up(match[0]))
    yield from _web_tokens(text)


def begins(text: str, at: int) -> bool:
    """Whether a word may begin here: after no letter, digit, `_` or `-` but those of an escape (`\\n`, `%3D`)."""
    if at == 0 or not (text[at - 1].isalnum() or text[at - 1] in "_-"):
        return True
    return _ESCAPED.search(text, max(0, at - 6), at) is not None


def _of_shape(text: str, shape: Shape, start: str) -> Iterator[Span]:
    rest, at = shape.rest, text.find(start)
    while at >= 0:
        after = at + len(start)
        match = rest.match(text, after) if begins(text, at) else None
        if match is not None:
            after = match.end()
            if not made_up(match[0]):
                yield shape.kind, at, after
        at = text.find(start, after)


def _web_tokens(text: str) -> Iterator[Span]:
    """JSON Web Tokens: three parts, the first of which is a JSON object."""
    pattern, at = _compiled(_JWT), text.find("eyJ")
    while at >= 0:
        after = at + 3
        match = pattern.match(text, at) if begins(text, at) else None
        if match is not None:
            after = match.end()
            if _is_header(match[0].partition(".")[0]):
                yield "json-web-token", at, after
        at = text.find("eyJ", after)


def _is_header(part: str) -> bool:
    try:
        return isinstance(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))), dict)
    except (ValueError, RecursionError):
        return False


@cache
def _rest(letters: str, least: int, most: int) -> re.Pattern[str]:
    # a run that is longer than the longest credential is something else
    end = "A-Za-z0-9" if "_" not in letters else letters.rstrip(".=/+")
    return re.compile(f"[{letters}]{{{least},{most}}}(?![{end}])")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
