"""Does the demo hold its own claims, and does it leave nothing behind?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where documents and where temporary files go."""
    docs, temporary = tmp_path / "docs", tmp_path / "temporary"
    docs.mkdir()
    temporary.mkdir()
    return docs, temporary


@pytest.mark.timeout(600)
def test_the_demo_holds_every_claim_and_leaves_nothing(tmp_path: Path):
    """The main job from nothing: two sessions and the command line on one memory, on a small folder of documents."""
    docs, temporary = folders(tmp_path)
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
    assert list(temporary.glob("memoryd-demo-*")) == []


def test_a_demo_that_is_told_to_end_takes_its_daemon_with_it(tmp_path: Path):
    """SIGTERM in the middle: the sessions close, the daemon stops, the folder goes, the exit code is not 0."""
    docs, temporary = folders(tmp_path)
    (docs / "page.md").write_text("# Page\n\nA page.\n", "utf-8")
    running = subprocess.Popen(
        [sys.executable, "-m", "tests.journeys.demo", "--docs", str(docs)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    try:
        for line in running.stdout:
            if "daemon serves both" in line:
                break
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
        assert running.wait(timeout=60) != 0
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
    assert "ok    no process of this run is left" in rest
    assert list(temporary.glob("memoryd-demo-*")) == []
