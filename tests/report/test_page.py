"""The report in a real browser."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from analysis.test_study import CLEAR, make_study
from onelayer.analysis.study import analyze
from onelayer.config import ReportOptions
from onelayer.report.html import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_the_page_whole_and_without_an_error(project: Path) -> None:
    analyze(make_study(CLEAR))
    page = write_report(["tiny"], ReportOptions()).absolute()
    assert CHROMIUM is not None
    result = subprocess.run(
        [
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={project / 'browser'}", "--enable-logging=stderr", "--window-size=375,800",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in result.stderr
    assert result.stdout.count("<svg") == 2
    assert result.stdout.rstrip().endswith("</html>")
