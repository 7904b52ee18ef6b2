"""The summary on the terminal fits 80 columns and cannot be steered by names."""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from auditor.render import terminal_summary
from tests.render import invented


def printed(document: dict[str, Any], *written: Path, width: int = 80) -> str:
    out = io.StringIO()
    terminal_summary(document, Console(file=out, width=width, force_terminal=True, color_system=None), written)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())  # rich's own styles


def test_every_line_fits_eighty_columns() -> None:
    for width in (80, 200):
        assert max(len(line.rstrip()) for line in printed(invented.document(), width=width).splitlines()) <= 80


def test_it_says_money_state_limits_files_and_the_next_step() -> None:
    text = printed(invented.document(), Path("out/report.html"), Path("out/findings.json"))
    flat = re.sub(r"\s+", " ", text)
    for words in (
        "371,220.41",
        "61,302.90",
        "USD 36,620.50 20 %",
        "GPU instance runs idle",
        "Reconciles exactly",
        "failed: billing/azure/part_0_0001.csv: line 40212",
        "rule skipped: storage.gpu_starved_by_disk: no disk metrics",
        "no charges: gcp acme-ml: 2026-03-08, 2026-03-09",
        "wrote out/report.html",
        "Next: open out/report.html",
    ):
        assert words in flat.replace("\xa0", " "), words


def test_bills_that_end_before_the_window_do_not_count_as_complete() -> None:
    document = invented.document()
    document["run"] |= {"gaps": [], "newest_charge": dict.fromkeys(document["run"]["windows"], "2026-01-01T00:00:00Z")}
    flat = re.sub(r"\s+", " ", printed(document))
    assert "! Bills end early" in flat
    assert "No missing days" not in flat


def test_names_are_neither_escape_codes_nor_markup() -> None:
    document = invented.document()
    document["findings"][0] |= {"resource_name": "[bold]x[/]\x1b]0\x07", "title": "[red]t"}
    text = printed(document)
    assert "[bold]x[/]⟨U+001B⟩]0⟨U+0007⟩" in text
    assert "[red]t" in text
    assert "\x1b" not in text
    assert "\x07" not in text


def test_nothing_found_is_said() -> None:
    document = invented.document() | {"findings": [], "gpu_ledger": []}
    assert "No open finding." in printed(document)
