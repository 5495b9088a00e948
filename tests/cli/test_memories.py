"""Can memories be added, found, read, replaced and retired from a shell?"""

from __future__ import annotations

import hashlib
import re
import subprocess
import time


def indexed(shell):
    """Wait until nothing is pending."""
    until = time.monotonic() + 60
    while shell.json("status")["index"]["pending"]:
        assert time.monotonic() < until
        time.sleep(0.2)


def test_a_memory_from_its_first_word_to_its_end(shell):
    subprocess.run(["git", "init", "-q", str(shell.directory)], check=True)
    added = shell.json("remember", "We pin tokenizers to 0.22.", "--type", "decision", "--tag", "a", "--tag", "b")
    assert added["outcome"] == "added"
    assert added["scope"].startswith("p-here-"), "the shell's directory decides the project"
    assert shell.json("remember", "We pin tokenizers to 0.22.", "--type", "decision")["outcome"] == "exists"
    text = shell.said("remember", "-", "--type", "fact", "--title", "Port", "--key", "port", stdin=b"It is 8080.\n")
    assert text.startswith("added: ")
    indexed(shell)

    found = shell.json("search", "tokenizers", "--mode", "keyword", "--kind", "memory", "--type", "decision")
    assert [one["id"] for one in found["memories"]] == [added["id"]]
    assert found["memories"][0]["tags"] == ["a", "b"]
    assert set(found) == {"memories", "summary", "suggestions", "index", "mode"}
    assert "explain" in shell.json("search", "tokenizers", "--explain", "--max-results", 1)
    shown = shell.said("search", "tokenizers", "--mode", "keyword")
    assert "1. We pin tokenizers to 0.22." in shown
    assert f"id {added['id'][:12]}" in shown

    body = shell.said("get", added["id"][:12])
    assert body.endswith("We pin tokenizers to 0.22.\n")
    whole = shell.json("get", added["address"])
    assert added["address"] == "sha256:" + hashlib.sha256(whole["content"].encode()).hexdigest()
    assert shell.json("get", f"vault/{added['path']}", "--offset", 1, "--limit", 2)["bytes"] == [1, 3]
    assert shell.json("get", added["id"], "--metadata")["extraction"]["problem"] is None
    assert "history" in shell.said("get", added["id"], "--metadata")

    preview = shell.json("supersede", added["id"], "We pin tokenizers to 0.23.")
    assert preview["outcome"] == "preview"
    words = shell.said("supersede", added["id"], "-", stdin=b"We pin tokenizers to 0.23.")
    assert "+We pin tokenizers to 0.23." in words
    token = next(line.split()[1] for line in words.splitlines() if line.startswith("--confirm"))
    new = shell.json("supersede", added["id"], "We pin tokenizers to 0.23.", "--confirm", token)
    assert (new["outcome"], new["retired"]) == ("superseded", added["id"])

    preview = shell.json("archive", new["id"], "not used any more")
    gone = shell.said("archive", new["id"], "not used any more", "--confirm", preview["confirm"])
    assert gone.startswith("archived: ")
    status = shell.json("status")
    assert status["memories"] == {"in_force": 1, "superseded": 1, "archived": 1}
    for name in ("in force", "superseded", "archived"):
        assert re.search(rf"^  {name} +1$", shell.said("status"), re.MULTILINE)


def test_refusals_keep_the_daemons_own_code(shell):
    assert shell.error("remember", "x", "--type", "fact")["code"] == "scope-required"
    assert shell.error("remember", " ", "--type", "fact", "--scope", "global")["code"] == "blank-content"
    bad = shell.error("remember", "-", "--type", "fact", "--scope", "global", stdin=b"caf\xe9")
    assert bad["code"] == "bad-characters"
    large = b"x" * (10 << 20)
    assert (
        shell.error("remember", "-", "--type", "fact", "--scope", "global", stdin=large)["code"] == "content-too-large"
    )
    huge = b"x" * (17 << 20)
    assert (
        shell.error("remember", "-", "--type", "fact", "--scope", "global", stdin=huge)["code"] == "content-too-large"
    )
    assert shell.error("search", "x", "--scope", "p-none-00000000")["code"] == "scope-unknown"
    for what in ("0" * 12, "sha256:" + "0" * 64, "docs/none.md", "nonsense"):
        assert shell.error("get", what)["code"] == "not-found"
    assert shell.error("archive", "0" * 64, "why")["code"] == "not-found"
    assert shell.json("status")["memories"] == {}


def test_nothing_found_is_said_in_words(shell):
    assert "Nothing found" in shell.said("search", "walrus", "--mode", "keyword")
    shell.json("remember", "We release on Tuesdays.", "--type", "decision", "--scope", "global")
    shell.indexed()
    assert "Try other words, `--mode semantic` or `--mode keyword`" in shell.said(
        "search", "the capital city of Mongolia"
    )


def test_a_content_that_goes_on_says_so_beside_it(shell):
    added = shell.json("remember", "One two three.", "--type", "fact", "--scope", "global")
    whole = shell.json("get", added["id"])
    done = shell.run("get", added["id"], "--limit", 3)
    assert (done.out, done.code) == ("---\n", 0)
    assert done.err == f"Bytes 0 to 3 of {whole['size']}. Give the same command with --offset 3 for the rest.\n"


def test_an_explained_search_says_what_is_not_shown(shell):
    """What lies under the floor, and what only repeats."""
    same = "The pump house stands behind the north dam."
    for kind in ("fact", "note"):
        shell.json("remember", same, "--type", kind, "--scope", "global", "--force", "both count")
    shell.indexed()
    assert "Left out: " in shell.said("search", "pump house", "--mode", "keyword", "--explain")
    said = shell.said("search", "who wrote the opera about the barber of Seville", "--explain")
    assert "Nothing relevant" in said and "Under the floor of relevance: 2" in said


def test_an_explained_search_shows_people_legs_ranks_scores_and_times(shell):
    shell.json("remember", "The pump is serviced in May.", "--type", "fact", "--scope", "global")
    indexed(shell)
    shown = shell.said("search", "pump", "--mode", "keyword", "--explain")
    assert re.search(r"^   lexical no\. 1 \(\d+\.\d{3}\).*: together \d\.\d{4}$", shown, re.MULTILINE)
    assert "Candidates: lexical 1. Looked in: scopes global, statuses in_force." in shown
    assert re.search(r"^Time: \d+\.\d ms \(lexical \d+\.\d, ", shown, re.MULTILINE)
    assert "no. 1" not in shell.said("search", "pump", "--mode", "keyword")
    found = shell.json("search", "pump", "--mode", "keyword")
    told = shell.json("why", "pump", found["memories"][0]["id"][:12], "--kind", "document")
    assert (told["returned"], told["reason"]) == (False, "filter")
    words = shell.said("why", "pump", found["memories"][0]["source"], "--mode", "keyword")
    assert "Returned (returned). It is returned, ranked 1." in words and "  lexical: no. 1 (score " in words
    brief = shell.said("recall", "service the pump", "--scope", "global")
    assert "The pump is serviced in May." in brief and "memory_" not in brief
    assert shell.json("recall", "service the pump", "--max-tokens", "100", "--scope", "global")["tokens"] <= 100


def test_a_memory_whose_file_was_broken_by_hand_is_marked(shell):
    added = shell.json("remember", "The pump is serviced in May.", "--type", "fact", "--scope", "global")
    file = shell.home / "vault" / added["path"]
    file.write_text(file.read_text().replace("type: fact", "type: [oops"))
    until = time.monotonic() + 60
    while "Problem: Line 6: " not in (found := shell.said("search", "pump", "--mode", "keyword")):
        assert time.monotonic() < until, found
        time.sleep(0.2)
    assert "mended by hand" in found
    done = shell.run("get", f"vault/{added['path']}")
    assert done.code == 0 and done.out.rstrip() == file.read_text().rstrip()
    assert done.err.startswith("Problem: Line 6: ")
    assert shell.json("get", f"vault/{added['path']}")["problem"].startswith("Line 6: ")
    file.write_text(file.read_text().replace("type: [oops", "type: oops"))
    while "key `type`" not in (told := shell.error("get", added["id"])["message"]):  # a file's key, no option
        assert time.monotonic() < until, told
        time.sleep(0.2)
    short = added["id"][:12]
    for words in (["get", added["id"]], ["get", short], ["supersede", short, "x"], ["archive", short, "x"]):
        told = shell.error(*words)
        assert told["code"] == "not-found"
        assert f"vault/{added['path']} is broken. Line 5, key `type`: " in told["message"]


def test_every_outcome_of_an_add_is_told_with_what_settles_it(shell):
    def remember(words, *more):
        return shell.said("remember", words, "--type", "fact", "--scope", "global", *more)

    old = shell.json("remember", "The pump of hall two runs at 40 bar.", "--type", "fact", "--scope", "global")
    variant = remember("the pump of hall two runs at 40 bar")
    assert variant.startswith(f"similar: {old['id'][:12]} global/fact/")
    assert "   | The pump of hall two runs at 40 bar.\n" in variant
    assert f"proposed: memoryd supersede {old['id'][:12]} CONTENT" in variant
    assert "give the command again with --force and why" in variant
    assert remember("the pump of hall two runs at 40 bar", "--force", "both are wanted").startswith("added: ")

    revised = remember("The pump of hall two runs at 55 bar.")
    new = revised.split()[1]
    assert revised.startswith("conflicts: ")
    command = f"supersede {old['id'][:12]} --by {new}"
    assert f"it gives another value for the same thing: memoryd {command}\n" in revised
    assert "`" not in revised, "nothing that only callers of tools know"
    token = shell.json(*command.split())["confirm"]
    shell.said(*command.split(), "--confirm", token)
    retired = remember("The pump of hall two runs at 40 bar.")
    assert retired.startswith(f"retired: {old['id'][:12]} ")
    assert f"successor: {new} The pump of hall two runs at 55 bar." in retired
    then = shell.json("get", old["id"])["created"]
    assert shell.json("get", new, "--as-of", then)["content"].endswith("40 bar.")
