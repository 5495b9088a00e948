"""Does `memoryd calibrate` work from a shell, with and without a daemon?"""

from __future__ import annotations

import json

import pytest


@pytest.mark.parametrize("running", [True, False])
def test_it_measures_pairs_and_vault_and_keeps_the_cuts(shell, tmp_path, running):
    shell.json("remember", "The queue holds forty jobs.", "--type", "fact", "--scope", "global")
    if not running:
        shell.said("stop")
    pairs = tmp_path / "here" / "mine.jsonl"
    pairs.write_text(json.dumps({"a": "The limit is 3.", "b": "The limit is 4.", "label": "revision"}) + "\n")
    answer = shell.json("calibrate", "--pairs", "mine.jsonl")
    assert (answer["stopped"], answer["vault"]["measured"], answer["file"]["count"]) == (False, 1, {"revision": 1})
    kept = json.loads((shell.home / "thresholds.json").read_text())["models"]
    assert kept[answer["model"]["fingerprint"]] == answer["cuts"]
    said = shell.said("calibrate", "--pairs", pairs)
    for part in ("AUC", "words alone", "cosine alone", "both", "Too few", "no gap", "only the same words are"):
        assert part in said
    assert "vault: 1 memory of 1 in force measured" in said
    if running:
        assert {one["kind"] for one in shell.json("job", "list")["jobs"]} == {"calibrate"}


def test_a_malformed_file_is_an_error_with_its_line(shell, tmp_path):
    (tmp_path / "here" / "bad.jsonl").write_text("{}\n")
    assert "bad.jsonl:1" in shell.error("calibrate", "--pairs", "bad.jsonl")["message"]
