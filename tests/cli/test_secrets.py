"""Can a person, and only a person, keep what looks like a secret, and have one left out of an artifact?"""

from __future__ import annotations

from tests.extract.credentials import Maker

PLACE = ("--type", "fact", "--scope", "global")


def test_a_secret_is_refused_in_words_and_let_in_by_a_person(shell):
    one = Maker(8).of("gitlab-token")
    refused = shell.error("remember", f"Clone with\n{one}", *PLACE)
    assert refused["code"] == "secret-found" and "--allow-secret" in refused["next_step"]
    assert "`CONTENT` holds what looks like a secret (gitlab-token, line 2" in refused["message"]
    assert one[8:] not in str(refused)
    assert not [file for file in shell.home.rglob("*.log") if one in file.read_text("utf-8", "replace")]
    added = shell.json("remember", f"Clone with\n{one}", *PLACE, "--allow-secret")
    assert added["outcome"] == "added"
    assert one in (shell.home / "vault" / added["path"]).read_text()

    new = f"Clone with {one} only"
    assert shell.error("supersede", added["id"], new)["code"] == "secret-found"
    preview = shell.json("supersede", added["id"], new, "--allow-secret")
    assert one not in str(preview)
    done = shell.json("supersede", added["id"], new, "--confirm", preview["confirm"], "--allow-secret")
    assert done["outcome"] == "superseded"

    assert shell.error("archive", done["id"], f"was {one}")["code"] == "secret-found"
    assert shell.json("archive", done["id"], f"was {one}", "--allow-secret")["outcome"] == "preview"


def test_add_redacts_a_file_when_asked(shell):
    one = Maker(8).of("aws-access-key")
    (shell.directory / "build.log").write_text(f"uses {one}\nuses {one} again\n")
    said = shell.said("add", "build.log", "--scope", "global", "--redact")
    assert "2 redacted: 2 aws-access-key" in said
    assert shell.said("get", "artifact/global/build.log").count("[redacted: aws-access-key]") == 2
    kept = shell.json("add", "build.log", "--scope", "global", "--name", "whole.log")
    assert "redacted" not in kept and one in shell.said("get", kept["source"])
    (shell.directory / "image.png").write_bytes(b"\x89PNG\r\n" + bytes(9))
    assert shell.error("add", "image.png", "--scope", "global", "--redact")["code"] == "not-text"
    assert "--redact" in shell.run("add", str(shell.directory), "--redact").err
