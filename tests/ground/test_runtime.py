"""Do two sides of a home find each other, however deep it lies?"""

from __future__ import annotations

import os
import stat

import pytest

from memoryd.runtime import RuntimePaths, bind, connect, home_directory


@pytest.mark.parametrize("length", [107, 108, 109, 300])
def test_h05_case_51_sockets_work_at_any_path_length(tmp_path, length):
    """H05, case 51: 107, 108, 109 and 300 bytes, also with multi-byte characters."""
    folder = str(tmp_path)
    while len(os.fsencode(folder + "/rpc.sock")) + 101 < length:
        folder += "/" + "\u00e9" * 50
    rest = length - len(os.fsencode(folder + "/rpc.sock")) - 1
    if rest > 0:
        folder += "/" + "d" * rest
    os.makedirs(folder, exist_ok=True)
    path = folder + "/rpc.sock"
    assert len(os.fsencode(path)) == length
    server = bind(path)
    try:
        server.listen()
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        client = connect(path, 5)
        peer, _ = server.accept()
        client.sendall(b"hi")
        assert peer.recv(2) == b"hi"
        client.close()
        peer.close()
    finally:
        server.close()


def test_only_a_refusal_proves_that_nobody_listens(tmp_path):
    with pytest.raises(FileNotFoundError):
        connect(str(tmp_path / "none.sock"), 1)
    bind(str(tmp_path / "dead.sock")).close()
    with pytest.raises(ConnectionRefusedError):
        connect(str(tmp_path / "dead.sock"), 1)


def test_the_home_is_the_option_then_the_variable_then_the_users(own_home):
    assert home_directory("/x/../y", {"MEMORYD_HOME": "/z"}) == "/y"
    assert home_directory(None, {"MEMORYD_HOME": "/z"}) == "/z"
    assert home_directory(None, {"XDG_RUNTIME_DIR": "/run/user/1", "TMPDIR": "/t"}) == f"{own_home}/.memoryd"


def test_two_homes_never_share_a_socket():
    assert RuntimePaths("/a").rpc_socket != RuntimePaths("/b").rpc_socket
