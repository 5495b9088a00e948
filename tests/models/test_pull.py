"""Behaviour of memoryd.models.pull against a hub of our own, on the loopback."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from memoryd.errors import ModelUnavailable
from memoryd.models.checkpoint import required
from memoryd.models.pull import pull
from tests.models.conftest import run_python
from tests.models.whole import look_alike

COMMIT = "c" * 40


class Hub(ThreadingHTTPServer):
    """Serves one folder as the repository; `asked` are the paths and ranges of what was read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.folder = folder
        self.asked: list[tuple[str, str | None]] = []


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None: ...

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.path.partition("?")[0]
        if path.startswith("/api/"):
            names = [{"rfilename": one.name} for one in sorted(self.server.folder.iterdir())]
            data, headers = json.dumps({"id": "BAAI/bge-m3", "sha": COMMIT, "siblings": names}).encode(), {}
            if "/tree/" in path:
                sizes = {one.name: one.stat().st_size for one in sorted(self.server.folder.iterdir())}
                rows = [{"type": "file", "path": n, "size": s, "oid": "0" * 40} for n, s in sizes.items()]
                data = json.dumps(rows).encode()
            self._send(200, data, {"Content-Type": "application/json"} | headers, body=body)
            return
        data = (self.server.folder / path.rpartition("/")[2]).read_bytes()
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        begin = self.headers.get("Range")
        if body:
            self.server.asked.append((path.rpartition("/")[2], begin))
        start = int(begin.removeprefix("bytes=").partition("-")[0]) if begin and body else 0
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._send(206 if start else 200, data[start:], headers, body=body)

    def _send(self, code: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(code)
        for name, value in (headers | {"Content-Length": str(len(data))}).items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    folder = look_alike(tmp_path / "there")
    (folder / "README.md").write_text("not wanted")
    server = Hub(folder)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def asked_for(hub_port: int, target: Path, cwd: Path) -> None:
    code = f"from pathlib import Path; from memoryd.models.pull import pull; pull(Path({str(target)!r}))"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HTTP", "http"))}
    run_python(code, cwd=cwd, env=kept | {"HF_ENDPOINT": f"http://127.0.0.1:{hub_port}", "HF_HOME": str(cwd / "hf")})


def test_what_is_needed_comes_once(hub, tmp_path):
    target = tmp_path / "home" / "models" / "bge-m3"
    asked_for(hub.server_port, target, tmp_path)
    assert len(required(target)) == 6 and not (target / "README.md").exists()
    for name in required(target):
        assert (target / name).read_bytes() == (hub.folder / name).read_bytes()
    before = len(hub.asked)
    (target / "sparse_linear.pt").unlink()
    asked_for(hub.server_port, target, tmp_path)
    assert [name for name, _ in hub.asked[before:]] == ["sparse_linear.pt"]


def test_h23_without_a_network_it_is_told_and_what_is_there_stays(tmp_path, monkeypatch):
    folder = look_alike(tmp_path / "bge-m3")
    (folder / "colbert_linear.pt").unlink()
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelUnavailable) as caught:
        pull(folder)
    assert "copied by hand" in caught.value.next_step and str(folder) in caught.value.message
    assert (folder / "model.safetensors").exists()
