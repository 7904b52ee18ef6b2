"""Payloads in every text of a report: no output lets one do anything but be read."""

import csv
import io
import json
import re
import unicodedata
from pathlib import Path

import duckdb
import jsonschema
import pytest
from rich.console import Console

from auditor.assets import room
from auditor.render import FORMATS, render, terminal_summary
from tests.render import hostile
from tests.render.test_browser import MODULES
from tests.render.test_page import Page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("hostile")
    document, extras = hostile.report()
    render(document, extras, tuple(FORMATS), output)
    return output


def test_the_page_has_no_tag_address_or_handler_of_theirs(folder: Path) -> None:
    source = (folder / "report.html").read_text("utf-8")
    page = Page(source)
    assert len(page.all("script")) == len(page.all("style")) == 1
    for tag, attrs in page.tags:
        assert tag not in ("img", "iframe", "base", "link", "object", "embed", "form", "animate", "foreignobject"), tag
        assert not [name for name in attrs if name.startswith("on") or name in ("style", "src", "srcdoc")], tag
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith(("#", "https://", "http://"))
    assert len([m for m in page.all("meta") if m.get("http-equiv")]) == 1
    assert "<script>window.pwned=1</script>" in page.text


def test_nothing_invisible_reaches_a_page_a_comment_or_a_terminal(folder: Path) -> None:
    document, _ = hostile.report()
    console = Console(file=io.StringIO(), width=80, force_terminal=False)
    terminal_summary(document, console, [])
    assert isinstance(console.file, io.StringIO)
    outputs = {name: (folder / name).read_text("utf-8") for name in ("report.html", "report.md")}
    outputs["terminal"] = console.file.getvalue()
    for name, text in outputs.items():
        control = {f"U+{ord(c):04X}" for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"}
        assert not control, name


def test_no_cell_begins_like_a_formula(folder: Path) -> None:
    rows = list(csv.reader(io.StringIO((folder / "findings.csv").read_bytes().decode("utf-8"), newline="")))
    assert len(rows) == len(hostile.report()[0]["findings"]) + 1
    figures = re.compile(r"-?\d+(\.\d+)?")
    starts = [cell for row in rows for cell in row if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert all(figures.fullmatch(cell) for cell in starts)


def test_the_machine_formats_stay_whole(folder: Path) -> None:
    count = len(hostile.report()[0]["findings"])
    assert len(json.loads((folder / "findings.json").read_text("utf-8"))["findings"]) == count
    assert json.loads((folder / "findings.sarif").read_text("utf-8"))["version"] == "2.1.0"
    assert duckdb.execute("select count(*) from read_parquet(?)", [str(folder / "findings.parquet")]).fetchone() == (
        count,
    )
    assert (room("reports") / "findings.schema.json").is_file()


def test_markdown_has_no_html_and_no_link_of_theirs(folder: Path) -> None:
    text = (folder / "report.md").read_text("utf-8")
    outside = re.sub(r"(`{3,})\n.*?\n\1", "", text, flags=re.S)
    assert not re.search(r"(?<!\\)<(?!https://)", outside)
    assert "](javascript:" not in outside.replace("\\", "\0")
    assert not re.search(r"(?<!\\)!\[", outside)


SARIF_SCHEMA = MODULES / "@microsoft" / "jest-sarif" / "lib" / "schemas" / "sarif-2.1.0-rtm.5.json"


@pytest.mark.skipif(not SARIF_SCHEMA.is_file(), reason="needs the packages of tests/render/browser")
def test_sarif_fits_the_published_schema_whatever_it_says(folder: Path, reports: Path) -> None:
    schema = json.loads(SARIF_SCHEMA.read_text("utf-8"))
    for place in (folder, reports):
        log = json.loads((place / "findings.sarif").read_text("utf-8"))
        assert list(jsonschema.Draft7Validator(schema).iter_errors(log)) == []
