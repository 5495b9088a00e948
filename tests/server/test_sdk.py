"""Does the installed SDK do what the server relies on, loaded in parts as it is?"""

from __future__ import annotations

import subprocess
import sys

import pytest

from memoryd.server.transport import encode, parse

CODE = """
import sys
{before}
from memoryd.server import sdk
heavy = {{'mcp.client', 'httpx2', 'cryptography', 'jwt', 'mcp.server.mcpserver'}} & set(sys.modules)
print(sorted(heavy), sdk.Server.__name__)
"""


def run(before: str) -> str:
    code = CODE.format(before=before)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_only_the_parts_that_are_used_are_loaded():
    assert run("pass").strip() == "[] Server"


def test_an_sdk_that_needs_its_packages_is_loaded_in_full():
    fussy = (
        "import importlib\n"
        "real = importlib.import_module\n"
        "def fussy(name, *rest, **named):\n"
        "    if name == 'mcp.server.subscriptions': raise ImportError('all or nothing')\n"
        "    return real(name, *rest, **named)\n"
        "importlib.import_module = fussy"
    )
    assert "mcp.client" in run(fussy) and run(fussy).strip().endswith("Server")


def test_a_daemon_loads_nothing_of_models_and_people():
    code = "import sys, memoryd.server.tools, memoryd.server.run; print('\\n'.join(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {
        "numpy",
        "torch",
        "onnxruntime",
        "tokenizers",
        "qdrant_client",
        "rich",
        "click",
        "memoryd.cli",
        "memoryd.shell",
    }


def test_the_owner_of_the_lock_loads_nothing_heavy_before_it():
    code = "import sys, memoryd.server.daemon, memoryd.__main__; print('\\n'.join(sys.modules))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"anyio", "asyncio", "mcp", "mcp_types", "pydantic", "starlette", "uvicorn", "sqlite3", "click"}


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"x"}',
        b'{"jsonrpc":"2.0","id":"1","method":"x","params":{"a":"\\ud800"}}',
        b'{"jsonrpc":"2.0","method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}',
    ],
)
def test_messages_are_taken(line: bytes):
    message, refusals = parse(line)
    assert message is not None and refusals == []


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        (b'{"id":1,"method":"x"}', 1),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"x"}', 1),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', 0),
        (b'{"jsonrpc":"2.0","id":[],"method":"x"}', 0),
        (b'[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","method":"x"},1]', 1),
        (b"[]", 0),
        (b"5", 0),
        (b'{"jsonrpc":"2.0","id":1,"method":5}', 1),
    ],
)
def test_what_is_no_message_is_answered_where_it_asks(line: bytes, answers: int):
    message, refusals = parse(line)
    assert message is None and len(refusals) == answers
    assert all(b'"code": -32600' in answer and b'"id": null' not in answer for answer in refusals)


@pytest.mark.parametrize("line", [b"", b"{", b"\xff", b"NaN", b'{"a":Infinity}'])
def test_what_is_not_json_is_an_error(line: bytes):
    with pytest.raises(ValueError):
        parse(line)


def test_h12_an_answer_that_is_not_unicode_becomes_an_error_for_its_id():
    """H12: the writer never dies of a result."""
    message, _ = parse(b'{"jsonrpc":"2.0","id":7,"result":{"text":"\\ud800"}}')
    line = encode(message)
    assert line.endswith(b"\n") and b'"id": 7' in line and b"-32603" in line
