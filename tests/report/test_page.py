"""The report in a real browser."""

from __future__ import annotations

import html
import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.test_study import CLEAR, make_study
from onelayer.analysis.study import analyze
from onelayer.compare import compare
from onelayer.config import ReportOptions
from onelayer.report.html import write_report
from test_compare import make

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def browse(project: Path, page: Path, width: int) -> subprocess.CompletedProcess[str]:
    """Load a page in the browser, and give its DOM after scripts and what it logged."""
    assert CHROMIUM is not None
    return subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={project / 'browser'}", "--enable-logging=stderr", f"--window-size={width},800",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_page_whole_and_without_an_error(project: Path) -> None:
    analyze(make_study(CLEAR))
    result = browse(project, write_report(["tiny"], ReportOptions()).absolute(), 375)
    assert "CONSOLE" not in result.stderr
    assert result.stdout.count("<svg") == 2
    assert result.stdout.rstrip().endswith("</html>")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_pairs_of_studies_fit_a_narrow_window(project: Path) -> None:
    """The page stands in a frame of 400 pixels, for a headless window may not be so narrow."""
    names = ["a-study-of-a-long-name", "another-study", "a-third"]
    for seed, name in enumerate(names):
        make(name, seed=seed)
    compare(names)
    page = write_report(names, ReportOptions())
    measure = (
        "const e = frames[0].document.documentElement; document.title = 'beyond ' + (e.scrollWidth - e.clientWidth)"
    )
    frame = project / "frame.html"
    frame.write_text(
        f'<!doctype html><iframe srcdoc="{html.escape(page.read_text())}" width="400" height="800"'
        f' style="border:0" onload="{measure}"></iframe>'
    )
    result = browse(project, frame, 1000)
    assert "CONSOLE" not in result.stderr
    assert "<title>beyond 0</title>" in result.stdout
