"""Can a reader paste what docs/hosts.md shows, and would a host load the skill file?"""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text("utf-8")
SKILL = (resources.files("memoryd") / "SKILL.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def section(host: str) -> str:
    return PAGE.split(f"\n## {host}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("host", ["Claude Code", "Codex", "Cursor", "VS Code", "opencode"])
def test_each_host_has_a_snippet_that_runs_memproxy_by_its_full_path(host: str):
    found = re.findall(r"^```(?:json|toml)\n(.*?)^```", section(host), re.MULTILINE | re.DOTALL)
    assert found
    assert all('/bin/memproxy"' in block for block in found)


def test_every_snippet_parses():
    entries = [json.loads(block) for block in blocks("json")] + [tomllib.loads(block) for block in blocks("toml")]
    assert len(entries) >= 6
    names = {next(iter(set(entry) - {"$schema"})) for entry in entries}
    assert names == {"mcpServers", "servers", "mcp", "mcp_servers"}


def test_the_hand_made_request_is_one_line_of_json():
    line = re.search(r"echo '(\{.*\})' \| memproxy", PAGE)
    assert line is not None
    assert json.loads(line[1])["method"] == "initialize"


def test_the_skill_has_the_frontmatter_that_hosts_ask_for():
    _, frontmatter, body = SKILL.split("---\n", 2)
    fields = yaml.safe_load(frontmatter)
    assert set(fields) == {"name", "description"}
    assert fields["name"] == "memoryd"
    assert 1 <= len(fields["description"]) <= 1024
    assert body.lstrip().startswith("# ")


def test_the_skill_names_the_tools_and_no_other():
    named = set(re.findall(r"\b(?:memory|artifact|snapshot)_[a-z]+", SKILL))
    expected = {"search", "recall", "add", "supersede", "archive", "get", "feedback", "status"}
    assert named == {*(f"memory_{name}" for name in expected), "artifact_add", "snapshot_diff"}
