"""Credentials that nobody has: drawn anew at each run, so that no scanner finds one in this repository."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
WORD = ALNUM + "_-"


class Maker:
    """Draws credentials of every kind from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, letters: str, count: int) -> str:
        """So many characters; letters and digits both occur where the alphabet has both."""
        both = len({letter.isdigit() for letter in letters if letter.isalnum()}) == 2 and count >= 4
        while True:
            drawn = "".join(self.random.choices(letters, k=count))
            if not both or len({letter.isdigit() for letter in drawn if letter.isalnum()}) == 2:
                return drawn

    def of(self, kind: str) -> str:
        """A credential of a kind that a provider shapes."""
        return SHAPED[kind](self)


def _web_token(make: Maker) -> str:
    parts = [json.dumps({"alg": "HS256", "typ": "JWT"}).encode(), json.dumps({"sub": make.draw(HEX, 12)}).encode()]
    encoded = [base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, make.draw(WORD, 43)])


def _private_key(make: Maker) -> str:
    name = make.random.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "DSA ", ""])
    lines = [make.draw(ALNUM + "+/", 64) for _ in range(make.random.randint(2, 20))]
    return "\n".join(
        [f"-----BEGIN {name}PRIVATE KEY-----", *lines, make.draw(ALNUM, 20) + "==", f"-----END {name}PRIVATE KEY-----"]
    )


def _after(start: str, letters: str, count: int) -> Callable[[Maker], str]:
    return lambda make: start + make.draw(letters, count)


SHAPED: dict[str, Callable[[Maker], str]] = {
    "aws-access-key": lambda make: (
        make.random.choice(["AKIA", "ASIA"]) + make.draw(string.ascii_uppercase + "234567", 16)
    ),
    "github-token": lambda make: make.random.choice(["ghp_", "gho_", "ghs_", "ghu_"]) + make.draw(ALNUM, 36),
    "gitlab-token": _after("gl" + "pat-", WORD, 20),
    "slack-token": lambda make: (
        f"xoxb-{make.draw('0123456789', 12)}-{make.draw('0123456789', 12)}-{make.draw(ALNUM, 24)}"
    ),
    "slack-webhook": lambda make: (
        f"hooks.slack.com/services/T{make.draw(ALNUM, 8)}/B{make.draw(ALNUM, 8)}/{make.draw(ALNUM, 24)}"
    ),
    "stripe-key": lambda make: make.random.choice(["sk", "rk"]) + "_live_" + make.draw(ALNUM, 24),
    "npm-token": _after("npm_", ALNUM, 36),
    "pypi-token": _after("pypi-AgEIcHlwaS5vcmc", WORD, 120),
    "openai-key": lambda make: make.random.choice(
        ["sk-proj-" + make.draw(WORD, 60), f"sk-{make.draw(ALNUM, 20)}T3BlbkFJ{make.draw(ALNUM, 20)}"]
    ),
    "anthropic-key": _after("sk-ant-api03-", WORD, 93),
    "google-key": _after("AIza", WORD, 35),
    "huggingface-token": _after("hf_", ALNUM, 34),
    "sendgrid-key": lambda make: f"SG.{make.draw(WORD, 22)}.{make.draw(WORD, 43)}",
    "twilio-key": _after("SK", HEX, 32),
    "mailchimp-key": lambda make: make.draw(HEX, 32) + "-us12",
    "telegram-token": lambda make: make.draw("123456789", 9) + ":AA" + make.draw(WORD, 33),
    "discord-token": lambda make: f"M{make.draw(ALNUM, 23)}.{make.draw(ALNUM, 6)}.{make.draw(WORD, 27)}",
    "azure-storage-key": lambda make: "AccountKey=" + make.draw(ALNUM + "+/", 86) + "==",
    "digitalocean-token": _after("dop_v1_", HEX, 64),
    "vault-token": _after("hvs.", WORD, 90),
    "json-web-token": _web_token,
    "private-key": _private_key,
}
"""Kind -> a credential of it."""

PASSWORDS: dict[str, Callable[[Maker], str]] = {
    "drawn, 12 signs": lambda make: make.draw(ALNUM, 12),
    "drawn, 16 with signs": lambda make: make.draw(ALNUM, 8) + make.random.choice("!#%^&*+") + make.draw(ALNUM, 7),
    "word and digits": lambda make: (
        make.random.choice(["Sommer", "hunter", "dragon", "Falcon"]) + make.draw("0123456789", 3)
    ),
    "altered word": lambda make: (
        make.random.choice(["Tr0ub4dor&", "P@55w0rd!", "s3cr3tS4uce", "B4nan4Br0t"]) + make.draw("3456789", 1)
    ),
}
KEYS: dict[str, Callable[[Maker], str]] = {
    "32 hex digits": lambda make: make.draw(HEX, 32),
    "24 letters and digits": lambda make: make.draw(ALNUM, 24),
    "40 of base64": lambda make: make.draw(ALNUM + "+/", 40),
}
PASSWORD_PLACES = (
    'password = "{}"',
    "db_password: '{}'",
    "PASSWORD={}",
    "export PGPASSWORD={}",
    '{{"user": "app", "password": "{}"}}',
    "mysql --user app --password {} prod",
    "<password>{}</password>",
    "postgres://app:{}@db.internal/prod",
    'connect(user="app", passwd="{}")',
    "The root password is `{}`.",
    "  password: {}\n  user: app",
)
KEY_PLACES = (
    'api_key = "{}"',
    "api_key: {}",
    "AWS_SECRET_ACCESS_KEY={}",
    'client_secret: "{}"',
    "Authorization: Bearer {}",
    'headers = {{"X-Api-Key": "{}"}}',
    "const authToken = '{}';",
    "--token {}",
)


def samples(seed: int, rounds: int) -> list[tuple[str, str, str]]:
    """(kind, text, the credential in it), `rounds` of each kind and place."""
    make, made = Maker(seed), []
    for _ in range(rounds):
        made += [(kind, f"It answers to {(one := make.of(kind))} since Monday.", one) for kind in SHAPED]
        for places, values, kind in ((PASSWORD_PLACES, PASSWORDS, "password"), (KEY_PLACES, KEYS, "key")):
            for name, value in values.items():
                for place in places:
                    one = value(make)
                    made.append((f"{kind}, {name}", place.format(one), one))
    return made
