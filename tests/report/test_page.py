"""The report in a real browser: the machine's Chromium, driven by Playwright."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from analysis.test_study import CLEAR, make_study
from conftest import new_project
from onelayer.analysis.study import analyze
from onelayer.compare import compare
from onelayer.config import ReportOptions
from onelayer.report.html import write_report, write_study_page
from test_compare import FALLING, RISING, make

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

PHONE = {"width": 375, "height": 700}
THREE = ["a-study-of-a-long-name", "another-study", "a-third"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # As root, Chromium starts without its sandbox only.
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page as it loaded: what it asked for, and what its console said."""

    def __init__(self, browser: Browser, path: Path, scripts: bool = True) -> None:
        self.context = browser.new_context(viewport=PHONE, java_script_enabled=scripts)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []
        self.said: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.address = path.absolute().as_uri()
        self.page.goto(self.address)


@pytest.fixture(scope="module")
def page_of_three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three studies; its tables lie beside it."""
    with new_project(tmp_path_factory.mktemp("three")):
        for seed, name in enumerate(THREE):
            make(name, FALLING if seed == 2 else RISING, seed=seed)
        compare(THREE)
        return write_report(THREE, ReportOptions()).absolute()


@pytest.fixture
def three(page_of_three: Path, browser: Browser) -> Iterator[Visit]:
    """A visit to it, on a phone."""
    visit = Visit(browser, page_of_three)
    yield visit
    visit.context.close()


BEYOND = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_the_page_loads_alone_and_is_whole(three: Visit) -> None:
    page = three.page
    assert three.asked == [three.address]
    assert three.said == []
    # Every figure is drawn, and has its table.
    boxes = page.locator("svg").evaluate_all("all => all.map(one => one.getBBox().width * one.getBBox().height)")
    assert len(boxes) >= 3 * 2 + 3
    assert min(boxes) > 0
    drawn = page.locator("figure:has(svg)")
    assert drawn.count() == len(boxes)
    assert page.locator("figure:has(svg) table").count() == len(boxes)
    # Whatever the page points to in itself is there.
    dangling = page.locator("a[href^='#']").evaluate_all(
        "all => all.filter(one => !document.getElementById(one.hash.slice(1))).map(one => one.hash)"
    )
    assert dangling == []
    three.page.goto(page.locator("nav a").last.evaluate("one => one.href"))
    assert {address.partition("#")[0] for address in three.asked} == {three.address}


def test_a_phone_shows_the_answer_first_and_never_scrolls_sideways(three: Visit) -> None:
    page = three.page
    last = page.locator(".answer").last.bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= PHONE["height"]
    which, sure, cost, advice = (
        "alone carries",
        "95% interval",
        "of full training's|Beside full training it takes",
        "Train |No layer is",
    )
    for words in (which, sure, cost, advice):
        assert page.locator(".answer").filter(has_text=re.compile(words)).count() == 3
    assert page.evaluate(BEYOND) == 0
    page.locator("details").evaluate_all("all => all.forEach(one => one.open = true)")
    assert page.evaluate(BEYOND) == 0
    # Wide tables scroll in their own box.
    wide = page.locator(".table").evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth).length")
    assert wide > 0
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(BEYOND) == 0


def test_tables_sort(three: Visit, page_of_three: Path) -> None:
    page = three.page
    table = page.locator(f"#{THREE[2]}-contributions table")

    def column(number: int) -> list[str]:
        return table.locator(f"tbody tr td:nth-child({number})").all_inner_texts()

    def heads() -> list[str | None]:
        return [head.get_attribute("aria-sort") for head in table.locator("th").all()]

    found = pd.read_csv(page_of_three.parent / "tables/contributions.csv").query("study == @THREE[2]")
    table.get_by_role("button", name="contribution", exact=True).click()
    assert column(4) == [f"{one:.3f}" for one in sorted(found["contribution"])]
    assert heads().count("ascending") == 1
    table.get_by_role("button", name="contribution", exact=True).click()
    assert column(4) == [f"{one:.3f}" for one in sorted(found["contribution"], reverse=True)]
    assert heads()[3] == "descending"
    # By the keyboard too.
    table.get_by_role("button", name="layer", exact=True).focus()
    page.keyboard.press("Enter")
    assert column(1) == ["0", "1", "2", "3", "4"]
    assert heads() == ["ascending", *["none"] * (len(heads()) - 1)]


def test_numbers_sort_as_numbers_and_what_is_undefined_last(project: Path, browser: Browser) -> None:
    visit = Visit(browser, write_undefined(project))
    cells = visit.page.locator("tbody td:first-child")
    for order in (["-2", "5e-06", "9", "10", "undefined"], ["10", "9", "5e-06", "-2", "undefined"]):
        visit.page.get_by_role("button", name="figure").click()
        assert cells.all_inner_texts() == order
    visit.page.get_by_role("button", name="name").click()
    assert visit.page.locator("tbody td:last-child").all_inner_texts() == ["a", "b", "run-2", "run-10", ""]
    visit.context.close()


def write_undefined(project: Path) -> Path:
    """A page of one table, with the report's own script."""
    from importlib.resources import files

    script = files("onelayer.report").joinpath("templates/page.js").read_text()
    rows = [("10", "run-10"), ("undefined", "run-2"), ("9", ""), ("5e-06", "b"), ("-2", "a")]
    body = "".join(f"<tr><td>{figure}</td><td>{name}</td></tr>" for figure, name in rows)
    path = project / "table.html"
    path.write_text(
        "<!doctype html><table><thead><tr><th>figure</th><th>name</th></tr></thead>"
        f"<tbody>{body}</tbody></table><script>{script}</script>"
    )
    return path


def test_without_scripts_everything_but_sorting_is_there(project: Path, browser: Browser) -> None:
    analyze(make_study(CLEAR))
    visit = Visit(browser, write_study_page("tiny"), scripts=False)
    assert visit.page.locator("figure svg").count() >= 2
    assert visit.page.locator("th button").count() == 0
    assert visit.page.locator(".answer").inner_text().count("alone carries") == 1
    visit.context.close()


def test_print_opens_what_is_folded_and_breaks_no_figure(three: Visit) -> None:
    page = three.page
    folded = page.locator("details:not([open]) table")
    assert folded.count() > 0
    assert not folded.first.is_visible()
    page.emulate_media(media="print")
    assert all(one.is_visible() for one in folded.all())
    assert page.locator(".plot").first.evaluate("one => getComputedStyle(one).breakInside") == "avoid"
    assert not page.locator("nav").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF-")
    assert three.said == []
