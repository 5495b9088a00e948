"""Does the demo hold its own claims, and does it leave nothing behind?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
def test_the_demo_holds_every_claim_and_leaves_nothing(tmp_path: Path):
    """The main job from nothing: two sessions and the command line on one memory, on a small folder of documents."""
    docs, temporary = tmp_path / "docs", tmp_path / "temporary"
    docs.mkdir()
    temporary.mkdir()
    for number in range(5):
        text = f"# Page {number}\n\nHow the ferry company's page {number} about timetables is written.\n"
        (docs / f"page-{number}.md").write_text(text, "utf-8")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.journeys.demo", "--docs", str(docs)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 fail" in ended.stdout
    assert "5 documents and" in ended.stdout
    assert "memories added" in ended.stdout
    assert list(temporary.iterdir()) == []
