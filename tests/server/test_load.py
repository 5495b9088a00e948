"""Do many clients at once get served, by waiting and never by being dropped?"""

from __future__ import annotations

import json
import socket
import threading

from tests.daemons import Stack, wait_for

HELLO = json.dumps({"memoryd": "hello", "wire": 1, "version": "0.1.0", "pid": 1, "directory": None}).encode() + b"\n"


class Client:
    """A bare connection that speaks NDJSON."""

    def __init__(self, stack: Stack) -> None:
        self.sock = stack.raw()
        self.sock.settimeout(60)
        self.lines = self.sock.makefile("rb")
        self.sock.sendall(HELLO)
        self.hello = json.loads(self.lines.readline())

    def send(self, id: int, method: str, **params) -> None:
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def start(self) -> None:
        self.send(
            0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        self.read()

    def read(self) -> dict:
        return json.loads(self.lines.readline())

    def close(self) -> None:
        self.lines.close()
        self.sock.close()


def test_case_58_a_hundred_connections_with_calls_each(served: Stack):
    """Case 58: 100 connections, 10 calls each, zero failures."""
    clients = [Client(served) for _ in range(100)]
    for client in clients:
        client.start()
    for client in clients:
        for number in range(1, 11):
            client.send(number, "tools/call", name="show", arguments={"text": str(number)})
    for client in clients:
        found = {}
        for _ in range(10):
            answer = client.read()
            found[answer["id"]] = answer["result"]["structuredContent"]["text"]
        assert found == {number: str(number) for number in range(1, 11)}
    for client in clients:
        client.close()
    wait_for(lambda: served.http("GET", "/healthz")[1]["sessions"] == 0)


def test_case_58_thirty_two_clients_write_and_read_at_once(served: Stack):
    """Case 58: 32 concurrent clients, mixed calls."""
    failures: list[object] = []

    def work(number: int) -> None:
        client = Client(served)
        client.start()
        for turn in range(1, 11):
            name = "write" if turn % 2 else "show"
            client.send(turn, "tools/call", name=name, arguments={"text": f"{number}.{turn}"})
            answer = client.read()
            if "result" not in answer or answer["result"].get("isError"):
                failures.append(answer)
        client.close()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len([line for line in served.written() if line.startswith("write ") and "begins" not in line]) == 160


def test_case_60_a_queue_limit_blocks_and_drops_nothing(stack: Stack):
    """Case 60: one connection has at most 64 requests under way; the rest waits in its socket and is served later."""
    stack.daemon()
    client = Client(stack)
    client.start()

    def send_all() -> None:
        for number in range(1, 201):
            client.send(number, "tools/call", name="slow", arguments={"seconds": 60, "text": str(number)})

    sender = threading.Thread(target=send_all)  # it blocks once the socket is full, as it should
    sender.start()
    wait_for(lambda: stack.http("GET", "/healthz")[1]["active_calls"] == 64)
    other = Client(stack)
    other.start()  # another connection is not held up by the first one's limit
    other.close()
    assert stack.http("GET", "/healthz")[1]["active_calls"] == 64
    (stack.home / "release").touch()
    assert {client.read()["id"] for _ in range(200)} == set(range(1, 201))
    sender.join()
    client.close()


def test_a_client_that_never_reads_blocks_only_itself(served: Stack):
    deaf = Client(served)
    deaf.start()
    for number in range(1, 40):
        deaf.send(number, "tools/call", name="show", arguments={"kind": "big", "size": 300_000})
    other = Client(served)
    other.start()
    other.send(1, "tools/call", name="show", arguments={"text": "served"})
    assert other.read()["result"]["structuredContent"]["text"] == "served"
    other.close()
    deaf.close()


def test_a_line_over_the_limit_ends_only_its_connection(served: Stack):
    """A client without our proxy: the daemon holds its side of the limit."""
    client = Client(served)
    client.start()
    piece = b"x" * (1 << 20)
    try:
        for _ in range(18):
            client.sock.sendall(piece)
        assert client.lines.readline() == b""
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
    assert served.session().call("show", text="ok")["text"] == "ok"


def test_bytes_that_are_no_hello_end_only_their_connection(served: Stack):
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"[]\n", b"null\n", b"{}\n", b"x" * 70_000):
        with served.raw() as sock:
            sock.settimeout(10)
            try:
                sock.sendall(data)
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(65536):
                    pass
            except (BrokenPipeError, ConnectionResetError):
                pass
    assert served.http("GET", "/healthz")[0] == 200
    assert "a connection failed" not in served.log()
