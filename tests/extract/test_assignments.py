"""Is a value found that is given to a credential's name, and is code, prose and every placeholder left alone?"""

from __future__ import annotations

import pytest

from memoryd.extract.assignments import assignments
from tests.extract.credentials import KEY_PLACES, KEYS, PASSWORD_PLACES, PASSWORDS, Maker

DRAWN = Maker(11).draw("abcdefghkmnpqrstuvwxyzABCDEFGHKLMNPQRSTUVWXYZ23456789", 24)


def values(text: str) -> list[str]:
    return sorted({text[start:end] for _kind, start, end in assignments(text)})


@pytest.mark.parametrize("place", PASSWORD_PLACES)
@pytest.mark.parametrize("name", PASSWORDS)
def test_a_password_is_found_whole_in_each_place(place, name):
    for seed in range(20):
        one = PASSWORDS[name](Maker(seed))
        assert values(place.format(one)) == [one]


@pytest.mark.parametrize("place", KEY_PLACES)
@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_found_in_nearly_every_drawing(place, name):
    drawn = [KEYS[name](Maker(seed)) for seed in range(60)]
    missed = [one for one in drawn if values(place.format(one)) != [one]]
    assert len(missed) <= 2, missed  # a drawn key may look like words


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2",
        "the password is Tr0ub4dor&3.",
        "login app password s3cr3tS4uce9",
        "PGPASSWORD=Sommer2024! psql",
        "?user=a&password=s3cr3tS4uce9",
        "- **API key**: " + DRAWN,
        "api key = " + DRAWN,
        "SECRET_KEY_BASE=" + DRAWN,
        "secret: 9f86d081884c7d659a2feaa0c55ad015",
        '"refreshToken":"' + DRAWN + '"',
        "redis://:" + DRAWN + "@10.0.0.1:6379/0",
        "https://me:p@ss#w0rd@host/x",
        "Authorization: Basic " + "dXNlcjpodW50ZXIyc2VjcmV0",
        'std::string token := "' + DRAWN + '"',
        "if password == 'hunter2':",
        'password = r"hunter2x"',
        '\\"password\\": \\"hunter2x\\"',
    ],
)
def test_other_ways_to_say_it(text):
    assert len(values(text)) == 1, text


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name} = {value}" for name in ("password", "api_key", "secret", "TOKEN") for value in (
            '"<your-key>"', '"xxxxxxxxxxxx"', "changeme", '"change-me-1234"', "${DB_PASSWORD_1}", "$PASSWORD1", "%(password1)s",
            '"{{ vault_pass1 }}"', 'os.environ["X1"]', "os.getenv('PASSWORD_1')", "config.get_secret_v2()", "None", '""',
            "********", '"..."', "self.password1", "my_secret_key_2", '"your-api-key-here-123"', '"example-key-123456"',
            "[redacted: assigned-secret]", '"[redacted: assigned-secret]"', "prompt_for_password2()", "settings.TOKEN_V2",
        )),
        "The password is hashed with bcrypt and a salt of 16 bytes; a token lives 3600 seconds.",
        "Reset your password: see section 4.2.1 of the handbook.",
        "token: str = None, secret: Optional[str] = None, password: Annotated[str, Field(min_length=8)]",
        "max_tokens=4096, tokenizer = 'cl100k_base', token_count: 128000, token_type: bearer2",
        "password_hash = 'pbkdf2:sha256:600000$kR8xQ2Lm$9f8e7d6c5b4a39281706f5e4d3c2b1a0'",
        "public_key = 'AAAAC3NzaC1lZDI1NTE5AAAAIJ8fK2mQx9ZtR4bW7cV1nL'",
        "key = 'user:1234:session:5678', sort_key: created_at_2, primary_key=ID64, cache_key = 'a8Kd03JfQ2Lm9xZt'",
        "secretName: app-tls-2024, secretKeyRef: {name: db-1, key: password1x}",
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/db-a1b2c3",
        "password_file = /run/secrets/db_password_1",
        "the commit 9fceb02d0ae598e95dc970b74767f19372d61af8 changed how a token is read",
        "memory id 3f9a2c81, fact 9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab",
        "session 550e8400-e29b-41d4-a716-446655440000 lost its token",
        "http://localhost:8080/@user, https://host:443@v2, git@github.com:me/shop.git, mailto:a@b.org",
        "postgres://user:password@localhost/db, amqp://guest:guest@rabbit, https://${USER}:${PASS}@host, ftp://u:***@h",
        "password=base64.b64encode(digest), token=tokens[0], secret = secrets.token_hex(32)",
        "![x](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk)",
        "Press key: Ctrl+Alt+F2; keyboard, keystore, monkey = 'Zx9Kq3Lm7Rt2Wv8B'",
        "Bearer authentication and basic understanding are required here; Basic instructions follow.",
    ],
)  # fmt: skip
def test_code_prose_and_placeholders_are_left_alone(text):
    assert values(text) == []
