"""Where does a secret stand, does a text without it hold none, and is the time bounded whatever is in the text?"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.extract.secret import findings, redact
from tests.extract.credentials import SHAPED, Maker, samples

ROOT = Path(__file__).resolve().parents[2]
MEGABYTE = 1_000_000


def test_of_made_up_credentials_nearly_none_is_missed_and_nothing_of_them_stays():
    made = samples(5, 6)
    missed = [text for _kind, text, one in made if not findings(text) or one in redact(text).text]
    assert len(made) > 500 and len(missed) <= len(made) // 200, missed


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_and_columns_count_characters_whatever_ends_a_line(end):
    one = Maker(1).of("github-token")
    text = end.join(["# Tïtle 🗝", "", f"é🗝 {one}, and", "more"])
    (found,) = findings(text)
    assert (found.kind, found.line, found.columns) == ("github-token", 3, (4, 3 + len(one)))
    assert text[found.start : found.end] == one
    assert redact(text).text == text.replace(one, "[redacted: github-token]")


def test_a_key_block_goes_to_its_end_and_counts_once():
    block = Maker(2).of("private-key")
    for text in (
        f"before\n{block}\nafter",
        f"before\n{block.replace(chr(10), chr(13) + chr(10))}\nafter",
        f'before\n"{block}"\nafter',
    ):
        (found,) = findings(text)
        assert (found.kind, found.line) == ("private-key", 2)
        done = redact(text)
        assert "PRIVATE" not in done.text and done.counts == {"private-key": 1}
        assert done.text.startswith("before\n") and done.text.endswith("\nafter")
    escaped = '{"key": "' + block.replace("\n", "\\n") + '\\n"}'
    assert redact(escaped).text == '{"key": "[redacted: private-key]\\n"}'


def test_a_key_block_without_its_end_goes_as_far_as_key_letters():
    block = Maker(2).of("private-key").rpartition("-----END")[0]
    done = redact(f"{block}\n\nThat was it.")
    assert done.text.startswith("[redacted: private-key]") and done.text.endswith("That was it.")
    assert all(line not in done.text for line in block.splitlines() if line)


def test_a_putty_key_is_found():
    text = (
        "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n"
        + Maker(1).draw("abcdeXYZ23456", 48)
        + "\n\nend"
    )
    assert redact(text).text == "[redacted: private-key]\n\nend"


@pytest.mark.parametrize(
    "text",
    [
        "It refuses `-----BEGIN RSA PRIVATE KEY-----` blocks.",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUQ2x9kR7mYt4wPq8sN3vL\n-----END CERTIFICATE-----",
    ],
)
def test_a_mention_of_a_key_is_none(text):
    assert findings(text) == []


def test_pieces_that_overlap_are_one_finding_of_the_better_name():
    one = Maker(1).of("stripe-key")
    assert [found.kind for found in findings(f'api_key = "{one}"')] == ["stripe-key"]


def test_our_own_documents_and_code_hold_none():
    places = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "memoryd").rglob("*.py")]
    alarms = [(place.name, found) for place in places for found in findings(place.read_text("utf-8"))]
    assert len(places) > 100 and alarms == []


def test_the_standard_library_holds_next_to_none():
    places = sorted(Path(threading.__file__).parent.glob("*.py"))
    alarms = [(place.name, found) for place in places for found in findings(place.read_text("utf-8", "replace"))]
    assert len(places) > 100 and alarms == []


def test_a_finding_does_not_show_the_secret():
    one = Maker(1).of("npm-token")
    (found,) = findings(f"it is {one}")
    assert one not in repr(found) and one[4:12] not in repr(found)


PIECES = st.one_of(
    st.sampled_from(
        ["password", "token", "api_key", " = ", ": ", "=", '"', "'", "`", "\n", "\r\n", " ", "[redacted: jwt]", "://u:", "@h", "hunter2",
         "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\\n", "Bearer ", "--", "<", ">", "</", "]", "[", "ghp_", "eyJ", "İ"]
    ),
    st.text(max_size=12),
    st.builds(lambda seed, kind: Maker(seed).of(kind), st.integers(0, 99), st.sampled_from(sorted(SHAPED))),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_redacted_text_holds_no_finding_and_keeps_the_rest(text):
    done = redact(text)
    assert findings(done.text) == []
    assert (done.text == text) == (not findings(text)) == (not done.counts)


HOSTILE = {
    "assignments": "password=",
    "assignments with colons": "pwd:pwd/",
    "keys": 'api_key="',
    "found each time": 'password="hunter2"\n',
    "chained": "pwd=a1!b2",
    "dotted": ".sk-",
    "web tokens": "eyJ.",
    "web token beginnings": ".eyJaaaaaaaa",
    "addresses": "://a:",
    "begin lines": "-----BEGIN PRIVATE KEY-----\n",
    "key blocks": "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAA\n",
    "putty": "PuTTY-User-Key-File-2: \nA",
    "schemes": "bearer aaaaaaaaaaaaaaaaaa",
    "blanks": " ",
    "digits": "0",
    "letters": "M",
    "logins": "login aaaaaaaaaaaaaaaaaaaaaaaaaa password ",
    "capital dotted i": "İpassword",
    "escapes": "\\n",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_the_time_grows_with_the_length_and_no_faster(piece):
    """Measured at about 0.1 to 2.5 s a megabyte; what is quadratic takes minutes."""
    text = (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE]
    began = time.process_time()
    findings(text)
    assert time.process_time() - began < 15


def test_it_works_in_many_threads_and_changes_nothing_global():
    made = samples(9, 1)
    alone = [redact(text).text for _kind, text, _one in made]
    together: list[list[str]] = []
    loaded = set(sys.modules)
    threads = [
        threading.Thread(target=lambda: together.append([redact(text).text for _k, text, _o in made])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [alone] * 8
    assert not {name.split(".")[0] for name in set(sys.modules) - loaded} & {"requests", "urllib3", "socket"}
