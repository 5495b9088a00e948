"""Do check, rebuild, doctor, eval, config and skill work from a shell, with and without a daemon?"""

from __future__ import annotations

import json
import sys


def remember(shell, *texts):
    for text in texts:
        shell.json("remember", text, "--type", "fact", "--scope", "global")


def test_check_and_rebuild_with_and_without_a_daemon(shell):
    remember(shell, "The queue holds forty jobs.", "The release is cut on Tuesday.")
    for running in (True, False):
        checked = shell.json("check", "--read-data")
        assert (checked["clean"], checked["read_data"], checked["findings"]) == (True, True, [])
        built = shell.json("rebuild")
        assert (built["stopped"], built["documents"], built["passages"]) == (False, 2, 2)
        assert shell.said("check") == "Clean.\n"
        if running:
            assert {one["kind"] for one in shell.json("job", "list")["jobs"]} == {"check", "rebuild"}
            shell.said("stop")
    assert "generation" in shell.said("rebuild")
    found = shell.json("search", "when is the release cut", "--mode", "keyword")
    assert found["memories"][0]["content"] == "The release is cut on Tuesday."


def test_check_names_damage_and_fails(shell):
    remember(shell, "The queue holds forty jobs.")
    (pack,) = (path for path in (shell.home / "store" / "packs").rglob("*") if path.is_file())
    raw = bytearray(pack.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    pack.chmod(0o600)
    pack.write_bytes(raw)
    answer = shell.json("check", "--read-data", code=1)
    assert not answer["clean"]
    assert all({"code", "where", "message", "remedy"} <= set(one) for one in answer["findings"])
    done = shell.run("check", "--read-data")
    assert done.code == 1
    assert "Remedy:" in done.out
    assert f"{len(answer['findings'])} finding" in done.out and "finding(s)" not in done.out


def test_doctor_lists_its_checks_and_fails_with_the_first_bad_one(shell):
    good = shell.json("doctor")
    assert good["ok"]
    assert {"name", "ok", "message"} == set(good["checks"][0])
    assert not shell.home.exists(), "looking makes no home"
    (shell.home).mkdir(mode=0o700)
    (shell.home / "config.json").write_text('{"serach": {}}')
    bad = shell.json("doctor", code=1)
    wrong = [one for one in bad["checks"] if not one["ok"]]
    assert {one["name"] for one in wrong} == {"config", "vault", "model", "vectors"}
    assert "`search`" in wrong[0]["message"]
    done = shell.run("doctor")
    assert done.code == 1
    assert "FAIL config" in done.out
    assert done.out.count("\n") >= len(good["checks"])


def test_doctor_warns_of_a_memory_that_was_broken_by_hand(shell):
    remember(shell, "The queue holds forty jobs.")
    (file,) = (shell.home / "vault").rglob("*.md")
    whole = file.read_text()
    file.write_text(whole.replace("status: in_force", "status: whatever"))
    found = shell.json("doctor", code=3)
    (bad,) = (one for one in found["checks"] if not one["ok"])
    assert (found["ok"], bad["name"], bad["warning"]) == (False, "memories", True)
    done = shell.run("doctor")
    assert done.code == 3
    assert f"WARN memories  {file}:8" in done.out and "Correct the named line" in done.out
    assert "Exit code" in shell.said("doctor", "--help")
    file.write_text(whole)
    assert shell.json("doctor")["ok"]


def test_config_shows_defaults_and_what_the_file_says(shell):
    shown = shell.json("config")
    assert (shown["exists"], shown["config"]["search"]["model_wait_ms"]) == (False, 1500)
    assert "model_wait_ms 1500" in shell.said("config")
    shell.home.mkdir(mode=0o700)
    (shell.home / "config.json").write_text('{"search": {"model_wait_ms": "soon"}}')
    assert shell.error("config")["code"] == "config-error"


def test_skill_prints_what_an_agent_should_know(shell):
    text = shell.said("skill")
    assert text.startswith("---\n")
    assert shell.json("skill") == {"skill": text}
    assert "memory_search" in text


def test_eval_measures_a_set_in_a_home_of_its_own(shell, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    texts = {"d1": "The cat sat on the mat.", "d2": "Stock markets fell sharply.", "d3": "Rain is expected."}
    lines = [json.dumps({"_id": name, "text": text}) for name, text in texts.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines))
    (folder / "queries.jsonl").write_text(
        '{"_id": "q1", "text": "cat mat"}\n{"_id": "q2", "text": "shares lost value"}\n'
    )
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td2\t1\n")
    report = shell.json("eval", folder)
    (one,) = report["sets"].values()
    assert (one["queries"], report["regressions"]) == (2, [])
    assert set(one["arms"]) == {"lexical", "dense", "rrf", "hybrid"}
    assert one["arms"]["dense"]["mrr"] == 1.0
    assert set(one["latency_ms"]) == {"p50", "p95", "p99"}
    assert not shell.home.exists(), "the real home is not touched"
    text = type(shell)(shell.home, folder).said("eval", ".")
    assert text.startswith("set: 2 queries, 3 passages\narm "), "also of the folder that one stands in"
    assert "hybrid minus" in text


def test_a_report_without_its_extra_fails_before_anything_is_measured(shell, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = shell.error("eval", tmp_path, "--report", tmp_path / "report")
    assert (told["code"], (tmp_path / "report").exists()) == ("extra-missing", False)


def test_eval_measures_with_the_model_and_the_search_of_this_home(shell, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "The cat sat on the mat."}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "cat mat"}\n')
    (folder / "qrels.tsv").write_text("q1\td1\t1\n")
    shell.home.mkdir(mode=0o700)
    (shell.home / "config.json").write_text('{"model": {"name": "bge-m3"}}')
    assert shell.error("eval", folder)["code"] == "model-files-wrong"


def test_tasks_go_with_no_option_that_would_do_nothing(shell, tmp_path):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text('{"question": "where", "expected": ["here"]}\n')
    assert "--ablations" in shell.error("eval", tmp_path, "--ab", tasks, "--ablations")["message"]


def test_eval_names_what_is_missing_of_a_set(shell, tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "The cat sat on the mat."}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "cat mat"}\n')
    assert "qrels.tsv" in shell.error("eval", folder)["message"]
