"""A real Chromium, its network off, opens the reports: they hold at every width, harm nobody, and axe finds no fault.

Needs Debian's chromium, node, and the packages of tests/render/browser (npm ci there); without them it is skipped.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from auditor.render import render
from tests.render import hostile, invented

HERE = Path(__file__).parent / "browser"
MODULES = Path(os.environ.get("AUDITOR_NODE_MODULES", HERE / "node_modules"))
WIDTHS = (360, 768, 1440)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("chromium") and shutil.which("node") and (MODULES / "playwright-core").is_dir()),
        reason="needs chromium, node and the packages of tests/render/browser",
    ),
]


def look(*pages: dict[str, Any]) -> list[dict[str, Any]]:
    """What happened on each page; a page is a file, a width, a scheme, and what to do there."""
    wanted = [{"width": 1440, "scheme": "light", **page, "file": str(page["file"])} for page in pages]
    asked = json.dumps({"program": shutil.which("chromium"), "pages": wanted})
    done = subprocess.run(
        ["node", str(HERE / "look.mjs"), asked], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    seen: list[dict[str, Any]] = json.loads(done.stdout)
    return seen


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile report, as written and without its policy: escaping must hold by itself."""
    folder = tmp_path_factory.mktemp("nasty")
    document, extras = hostile.report()
    render(document, extras, ["html", "md"], folder)
    source = (folder / "report.html").read_text("utf-8")
    bare = source.replace('http-equiv="Content-Security-Policy"', 'name="no-policy"')
    assert bare != source
    (folder / "bare.html").write_text(bare, "utf-8")
    return folder


def test_no_payload_runs_or_asks_for_anything(nasty: Path) -> None:
    every = ["#open-all", ".sortable th button"]
    pages = [
        {"file": nasty / name, "width": width, "click": every}
        for name in ("report.html", "bare.html")
        for width in (360, 1440)
    ]
    for told in look(*pages):
        assert told["pwned"] is None
        assert told["requests"] == told["dialogs"] == told["console"] == []


def test_payloads_in_markdown_stay_text_when_it_is_rendered(nasty: Path, tmp_path: Path) -> None:
    code = (
        "const [, from, file] = process.argv; const { marked } = await import(from); "
        "const { readFile } = await import('node:fs/promises'); console.log(marked.parse(await readFile(file, 'utf-8')))"
    )
    library = MODULES / "marked" / "lib" / "marked.esm.js"
    command = ["node", "--input-type=module", "-e", code, library.as_uri(), str(nasty / "report.md")]
    body = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    page = tmp_path / "md.html"
    page.write_text(f"<!doctype html><meta charset=utf-8>{body}", "utf-8")
    (told,) = look({"file": page, "ask": "[...document.querySelectorAll('img,svg,iframe,script,style')].length"})
    assert told["pwned"] is None
    assert told["answer"] == 0
    assert told["requests"] == told["dialogs"] == []


def test_axe_finds_no_violation_at_any_width_in_either_scheme(reports: Path) -> None:
    page = reports / "report.html"
    pages = [
        {"file": page, "width": width, "scheme": scheme, "axe": True}
        for width in WIDTHS
        for scheme in ("light", "dark")
    ]
    for told, asked in zip(look(*pages), pages, strict=True):
        assert told["violations"] == [], asked


def test_no_page_is_wider_than_its_screen(reports: Path, nasty: Path) -> None:
    pages = [{"file": folder / "report.html", "width": width} for folder in (reports, nasty) for width in WIDTHS]
    assert [told["width"] for told in look(*pages)] == [*WIDTHS, *WIDTHS]


def test_sorting_and_filtering_work_and_nothing_is_complained_of(reports: Path) -> None:
    costs = "[...document.querySelectorAll('.heat tbody tr td:nth-child(4) [title]')].map(e => parseFloat(e.title))"
    shown = "[...document.querySelectorAll('.card')].filter(c => !c.hidden && !c.closest('.owner').hidden).length"
    page = reports / "report.html"
    twice = [".heat th:nth-child(4) button"] * 2
    up, few = look(
        {"file": page, "click": twice, "ask": costs}, {"file": page, "fill": ["#filter", "train-llm-07"], "ask": shown}
    )
    assert up["answer"] == sorted(up["answer"])
    assert len(up["answer"]) == 3
    assert few["answer"] == 1
    assert up["console"] == few["console"] == []


def test_without_script_every_finding_is_there(reports: Path) -> None:
    source = (reports / "report.html").read_text("utf-8")
    (told,) = look({"file": reports / "report.html", "script": False})
    assert told["console"] == []
    for finding in invented.findings():
        assert finding["status"] in ("muted", "resolved") or f'id="f-{finding["id"]}"' in source


def test_it_prints_to_a4(reports: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.pdf"
    (told,) = look({"file": reports / "report.html", "pdf": str(target)})
    assert told["pdf"] > 20_000
    sheets = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", target.read_bytes())
    assert len(sheets) > 3
    assert {(round(float(wide)), round(float(tall))) for wide, tall in sheets} == {(595, 842)}  # points: A4


def test_the_page_is_valid_html(reports: Path, nasty: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"root": true, "extends": ["html-validate:standard"]}')
    program = MODULES / "html-validate" / "bin" / "html-validate.mjs"
    pages = [str(reports / "report.html"), str(nasty / "report.html")]
    done = subprocess.run(
        ["node", str(program), "-c", str(settings), *pages], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout[:2000]
