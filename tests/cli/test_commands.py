"""The commands that speak of earlier audits."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auditor import render
from auditor.cli.app import app
from auditor.errors import SettingsError
from auditor.records import RealisedSaving
from auditor.state import State
from auditor.stored import dump_extras
from tests.deliver.documents import a_document, a_row
from tests.state.conftest import a_finding


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory of two audits: the second found one machine more and one less."""
    with State.open(str(tmp_path / "state.db")) as state:
        for subjects in (("i-0a", "i-0b"), ("i-0b", "[red]i-0c\x1b[2J")):
            run = state.begin_run()
            found = state.record_findings(run, [a_finding(each) for each in subjects], {("gpu.idle_instance", "aws")})
            rows = [a_row(id=each.id, status=each.status, resource_id=each.subject) for each in found]
            document = a_document(*rows, id=run)
            windows = document["run"]["windows"]
            state.finish_run(
                run, "complete", document, windows=windows, extras=dump_extras(render.Extras(notices=("Stale.",)))
            )
    yield tmp_path


def run(data: Path, *words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--data-dir", str(data)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def ids(data: Path, *words: str) -> dict[str, str]:
    lines = run(data, "findings", "list", "--json", *words).splitlines()
    return {record["subject"]: record["id"] for record in map(json.loads, lines)}


def test_findings_are_listed_without_those_that_are_resolved(data: Path) -> None:
    assert set(ids(data)) == {"i-0b", "[red]i-0c\x1b[2J"}
    assert set(ids(data, "--status", "resolved")) == {"i-0a"}
    assert len(ids(data, "--status", "all")) == 3
    assert "more than 1; see them with --limit" in run(data, "findings", "list", "--limit", "1")


def test_on_a_terminal_the_table_folds_and_names_stay_text(data: Path) -> None:
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "auditor", "findings", "list", "--data-dir", str(data)]
    process = subprocess.Popen(words, stdout=theirs, env={**os.environ, "COLUMNS": "80", "TERM": "xterm"})
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # a terminal whose other end is closed ends so
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert process.wait() == 0
    text = shown.decode()
    assert "\x1b[2J" not in text
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert "[red]i-0c" in plain
    assert max(map(len, plain.splitlines())) <= 80


def test_names_cannot_steer_the_terminal(data: Path) -> None:
    table = run(data, "findings", "list")
    assert "[red]i-0c⟨U+001B⟩[2J" in table
    assert "\x1b" not in table
    assert (
        len([line for line in table.splitlines() if "gpu.idle_instance" in line]) == 2
    )  # one line a finding in a pipe


def test_a_finding_is_shown_by_the_beginning_of_its_id_with_its_history(data: Path) -> None:
    id_ = ids(data)["i-0b"]
    shown = run(data, "findings", "show", id_[:8])
    for text in (id_, "idle for 28 days", "aws ec2 stop-instances --instance-ids i-0b", "— → new", "new → open"):
        assert text in shown
    assert json.loads(run(data, "findings", "show", id_, "--json"))["remediation"]["summary"] == "Stop it"
    with pytest.raises(SettingsError, match="no finding has the id"):
        run(data, "findings", "show", "zzz")


def test_findings_are_acknowledged_muted_and_given_back(data: Path) -> None:
    id_ = ids(data)["i-0b"]
    run(data, "findings", "ack", id_, "--author", "ada", "--note", "on it")
    assert "acknowledged by ada" in run(data, "findings", "show", id_)
    made = run(
        data, "findings", "mute", "--resource", "i-0b", "--reason", "later", "--author", "ada", "--until", "2099-01-01"
    )
    assert "covers 1 known findings" in made
    assert "i-0b" not in ids(data)
    mute = made.split()[1]
    assert f"{mute}  resource=i-0b until 2099-01-01  ada: later" in run(data, "findings", "unmute")
    run(data, "findings", "unmute", mute, "--author", "ada")
    assert "i-0b" in ids(data)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("findings", "list", "--status", "lost"), "choose from"),
        (("findings", "mute", "--resource", "x"), "needs an author and a reason"),
        (("findings", "mute", "--reason", "x"), "needs a scope"),
        (("findings", "mute", "--reason", "x", "--rule", "x", "--until", "soon"), "not a date"),
        (("runs", "show", "zzz"), "no run has the id"),
        (("send", "--kind", "daily"), "choose report or digest"),
        (("send",), "nobody wants the report"),
    ],
)
def test_wrong_words_are_explained(data: Path, words: tuple[str, ...], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        run(data, *words)


def test_a_directory_without_state_is_told_and_not_made_into_one(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no state"):
        run(tmp_path, "runs", "list")
    assert list(tmp_path.iterdir()) == []


def test_runs_are_listed_shown_and_compared(data: Path) -> None:
    newest, oldest = [line.split()[0] for line in run(data, "runs", "list").splitlines()]
    assert "findings    1 new, 1 open" in run(data, "runs", "show")
    compared = run(data, "runs", "diff", oldest, newest)
    assert [line[0] for line in compared.splitlines() if line[0] in "+-~"] == ["+", "-"]
    found = json.loads(run(data, "runs", "diff", oldest, "--json"))
    assert [each["resource_id"] for each in found["gone"]] == ["i-0a"]
    assert found["totals"]["billed_cost"] == {"currency": "USD", "before": "9000", "after": "9000"}


def test_a_report_is_written_again_with_what_it_showed_beside_the_document(data: Path, tmp_path: Path) -> None:
    said = run(data, "report", "-o", str(tmp_path / "again"), "-f", "html", "-f", "json")
    assert said.split() == [str(tmp_path / "again" / name) for name in ("report.html", "findings.json")]
    assert "Stale." in (tmp_path / "again" / "report.html").read_text()


def test_a_mail_is_shown_and_not_sent(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "auditor.toml"
    config.write_text(
        '[delivery.smtp]\nhost = "localhost"\nport = 1\nsecurity = "none"\nsender = "a@example.com"\nrecipients = ["b@example.com"]\n'
    )
    shown = run(data, "send", "--dry-run", "-c", str(config))
    assert "To: b@example.com (smtp)" in shown
    assert "Subject: [STALE DATA] USD 2,000 a month avoidable" in shown
    failed = CliRunner().invoke(app, ["send", "-c", str(config), "--data-dir", str(data)])
    assert failed.exit_code == 3
    assert "failed" in failed.output
    told = CliRunner().invoke(app, ["doctor", "-c", str(config), "--data-dir", str(data)])
    assert told.exit_code == 3
    assert "localhost:1 cannot be reached" in told.output
    assert "smtp to b@example.com: the report" in told.output


def test_init_writes_a_configuration_once(tmp_path: Path) -> None:
    path = tmp_path / "auditor.toml"
    assert CliRunner().invoke(app, ["init", str(path)], catch_exceptions=False).exit_code == 0
    with pytest.raises(SettingsError, match="is there already"):
        CliRunner().invoke(app, ["init", str(path)], catch_exceptions=False)


@pytest.mark.slow
def test_a_hundred_thousand_findings_are_listed_within_a_second_of_processor_time(tmp_path: Path) -> None:
    with State.open(str(tmp_path / "state.db")) as state:
        first = a_finding()
        many = [
            replace(first, subject=f"i-{n}", resource_id=f"i-{n}", monthly_savings_net=Decimal(n))
            for n in range(100_000)
        ]
        run_id = state.begin_run()
        state.record_findings(run_id, many, set())

    def cpu(*words: str) -> float:
        before = os.times()
        command = [sys.executable, "-m", "auditor", *words, "--data-dir", str(tmp_path)]
        subprocess.run(command, capture_output=True, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    startup = cpu("runs", "list")  # on a shared machine it varies by more than the list takes
    assert cpu("findings", "list") - startup < 0.7


def test_times_of_day_do_not_matter_to_until(data: Path) -> None:
    run(data, "findings", "mute", "--rule", "x.*", "--reason", "r", "--until", "2099-01-01", "--author", "ada")
    with State.open(str(data / "state.db")) as state:
        assert state.mutes_list()[0].until == datetime(2099, 1, 1, tzinfo=UTC)


def test_a_resolved_finding_shows_what_it_saved_beside_what_it_had_promised(data: Path) -> None:
    finding = ids(data, "--status", "resolved")["i-0a"]
    with State.open(str(data / "state.db")) as state:
        saving = RealisedSaving(finding, "2026-03", "USD", Decimal(330), Decimal(30), Decimal(300), Decimal("328.77"))
        state.record_realised(state.runs_list()[0].id, [saving])
    shown = run(data, "findings", "show", finding)
    assert "2026-03: USD 300.00 (330.00 before, 30.00 billed); 328.77 estimated for the same days" in shown
    [row] = json.loads(run(data, "findings", "show", finding, "--json"))["realised_savings"]
    assert (row["realised_savings"], row["estimated_savings"]) == ("300.000000000000", "328.770000000000")
