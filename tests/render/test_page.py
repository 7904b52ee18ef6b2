"""report.html: whole, self-contained, harmless, and saying what it does not know."""

import base64
import hashlib
import re
import shutil
import subprocess
import time
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from auditor.render import Extras, render
from tests.render import invented

VOID = {"meta", "input", "br", "img", "link", "hr"}
DRAWN = {"rect", "line", "path", "circle"}  # written with a closing slash


class Page(HTMLParser):
    """Tags, attributes and text of a page; it fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self) -> str:
        shown = (" ".join(texts) for tag, texts in self.texts.items() if tag not in ("style", "script"))
        return re.sub(r"\s+", " ", " ".join(shown))


@pytest.fixture(scope="module")
def source(reports: Path) -> str:
    return (reports / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def made(tmp_path: Path, document: dict[str, Any], extras: Extras | None = None) -> Page:
    (path,) = render(document, extras or Extras(), ["html"], tmp_path)
    return Page(path.read_text("utf-8"))


def test_the_page_loads_nothing_and_runs_only_its_own_script(page: Page) -> None:
    (policy,) = [m["content"] or "" for m in page.all("meta") if m.get("http-equiv") == "Content-Security-Policy"]
    for tag in ("style", "script"):
        (text,) = page.texts[tag]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attrs in page.tags:
        assert not {name for name in attrs if name == "style" or name.startswith("on") or name == "src"}, tag
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form")


def test_links_lead_to_the_web_or_into_the_page(page: Page) -> None:
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    links = [a["href"] or "" for a in page.all("a")]
    assert "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Stop_Start.html" in links
    for link in links:
        assert link.startswith(("https://", "http://")) or link.removeprefix("#") in ids, link


def test_hostile_names_are_shown_as_text(page: Page, source: str) -> None:
    assert invented.HOSTILE in page.text
    assert "<script>alert" not in source
    assert "<img" not in source
    assert "pay⟨U+202E⟩roll⟨U+200B⟩⟨U+001B⟩[31m" in page.text
    assert not re.search(r"[\u202a-\u202e\u2066-\u2069\u200b\x1b]", source)


def test_the_first_section_answers_what_a_finance_chief_asks(page: Page, source: str) -> None:
    first = Page(source[source.index('<section id="summary"') : source.index('<section id="spend"')]).text
    for words in ("371,220", "380,675", "61,303", "43,677", "17,626", "4,120", "16 %"):
        assert words in first.replace("\xa0", " ")
    for words in (
        "GPU instance runs idle",
        "1 source failed",
        "Reconciles exactly",
        "2 days without charges",
        "Partial.",
    ):
        assert words in first
    assert len(re.findall(r'<li><a href="#f-', source)) == 5


def test_many_notices_leave_the_first_section_in_sight(tmp_path: Path) -> None:
    extras = replace(invented.extras(), notices=tuple(f"Notice number {number}." for number in range(30)))
    (path,) = render(invented.document(), extras, ["html"], tmp_path)
    source = path.read_text("utf-8")
    assert source.count('<p class="notice"') == 3
    assert "27 more notices" in source
    assert all(notice in source for notice in extras.notices)


def test_a_saving_that_came_true_stands_beside_its_estimate(source: str) -> None:
    table = source[source.index("Savings that came true") :]
    row = re.search(r"<td>2026-03</td>(.+?)</tr>", table)
    assert row is not None
    assert re.findall(r"[\d.]{4,}", re.sub(r"<[^>]+>", " ", row.group(1))) == ["420.00", "0.00", "420.00", "433.33"]


def test_a_figure_keeps_all_its_digits(page: Page) -> None:
    titles = {attrs.get("title") for _, attrs in page.tags}
    assert "371220.413377 USD" in titles
    assert "32444.444444444444 USD" in titles


def test_headings_follow_each_other_and_tables_have_captions(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(page.all("caption")) == len(page.all("table"))
    assert len(page.all("main")) == len(page.all("nav")) == len(page.all("footer")) == 1
    assert all("aria-label" in svg or svg.get("aria-hidden") for svg in page.all("svg"))


def test_the_bar_of_classes_fills_its_width_in_proportion(source: str) -> None:
    bar = re.search(r'<svg class="bar tall".*?</svg>', source, re.S)
    assert bar
    widths = {
        style: float(width)
        for style, width in re.findall(r'<rect class="c-(\w+)" x="[\d.]+%" width="([\d.]+)%"', bar[0])
    }
    assert sum(widths.values()) == pytest.approx(100, abs=0.05)
    assert widths["idle"] == pytest.approx(100 * 36620.5 / 182000, abs=0.01)


def test_a_report_without_series_says_what_is_missing(tmp_path: Path) -> None:
    text = made(tmp_path, invented.document()).text
    for words in (
        "Daily costs are not part",
        "by owner is not part",
        "by model is not part",
        "thresholds of the rules are not part",
    ):
        assert words in text


def test_an_empty_audit_still_renders(tmp_path: Path) -> None:
    document = invented.document()
    document |= {"sources": [], "reconciliation": [], "gpu_ledger": [], "findings": []}
    document["coverage"] = {
        "rules": [],
        "gpu": {"resources": 0, "with_telemetry": 0, "effective_cost": "0", "effective_cost_with_telemetry": "0"},
    }
    document["run"] |= {"windows": {}, "newest_charge": {}, "gaps": []}
    document["totals"] |= {key: "0" for key in document["totals"] if key.startswith(("billed", "effective", "monthly"))}
    text = made(tmp_path, document, Extras(daily_costs=(), gpu_by_day=(), transfer_edges=(), no_telemetry=())).text
    assert "No billing data" in text
    assert "Not reconciled" in text
    assert "No accelerator charge" in text


def test_a_cent_apart_is_not_reconciled(tmp_path: Path) -> None:
    document = invented.document()
    document["reconciliation"][0] |= {"lake_billed_cost": "231004.13", "difference": "-0.01"}
    text = made(tmp_path, document).text
    assert "Does not reconcile" in text
    assert "USD 0.01 apart in 1 of 3 bills" in text


def test_findings_that_do_not_add_up_to_the_totals_are_owned_up_to(tmp_path: Path) -> None:
    document = invented.document()
    assert "do not add up" not in made(tmp_path, document).text
    document["totals"]["monthly_savings_net"] = "70000"
    assert "do not add up" in made(tmp_path, document).text


def test_five_hundred_findings_stay_light_and_none_is_lost(tmp_path: Path) -> None:
    document = invented.document()
    heaviest = document["findings"][0]
    document["findings"] = [heaviest | {"id": f"{n:016x}", "owner": f"team-{n % 40}"} for n in range(500)]
    started = time.process_time()
    (path,) = render(document, invented.extras(), ["html"], tmp_path)
    assert time.process_time() - started < 2
    assert path.stat().st_size < 1_500_000
    source = path.read_text("utf-8")
    assert all(f'id="f-{n:016x}"' in source for n in range(500))


def chromium(page: Path, profile: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium is not installed")
    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    command = [
        program,
        "--headless",
        "--no-sandbox",
        "--no-first-run",
        "--enable-logging=stderr",
        f"--user-data-dir={profile}",
    ]
    command += [f"--disable-{name}" for name in quiet]
    return subprocess.run([*command, *options, page.as_uri()], capture_output=True, text=True, timeout=60, check=True)


@pytest.mark.browser
def test_a_browser_runs_the_pages_script_and_refuses_nothing(reports: Path, tmp_path: Path) -> None:
    done = chromium(reports / "report.html", tmp_path / "profile", "--dump-dom")
    assert ">Copy</button>" in done.stdout
    assert '<p class="filter">' in done.stdout  # the script has taken `hidden` away
    assert "Content Security Policy" not in done.stderr
    assert "CONSOLE" not in done.stderr


@pytest.mark.browser
def test_no_screen_is_too_narrow(reports: Path, tmp_path: Path) -> None:
    source = (reports / "report.html").read_text("utf-8")
    source = source.replace('http-equiv="Content-Security-Policy"', 'name="removed"')
    tell = """<script>document.querySelectorAll('details').forEach(d => d.open = true);
        parent.postMessage(innerWidth + ':' + document.documentElement.scrollWidth, '*')</script></body>"""
    (tmp_path / "page.html").write_text(source.replace("</body>", tell), "utf-8")
    frames = "".join(
        f"<iframe src='page.html' style='width:{width}px;border:0'></iframe>" for width in (360, 768, 1440)
    )
    frame = tmp_path / "frame.html"
    frame.write_text(
        f"<script>addEventListener('message', e => {{ document.title += e.data + ';'; }})</script>{frames}"
    )
    options = ("--dump-dom", "--virtual-time-budget=5000", "--hide-scrollbars", "--window-size=3000,900")
    seen = re.search("<title>(.*?)</title>", chromium(frame, tmp_path / "profile", *options).stdout)
    assert seen
    assert set(seen[1].strip(";").split(";")) == {"360:360", "768:768", "1440:1440"}
