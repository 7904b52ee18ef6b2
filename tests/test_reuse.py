"""A run over unchanged inputs tells the findings of the run before, exactly as a whole audit would."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from auditor import audit, reuse
from auditor.assets import room
from auditor.cli.request import make_request
from auditor.landing import SourceReport
from auditor.progress import Silent
from auditor.scan import FOUND, ScanRequest, ScanResult, scan
from auditor.settings import AuditSettings
from auditor.spans import BillEnd, spans
from auditor.state import State
from auditor.stored import dump_extras, load_extras

NOW = datetime(2026, 10, 3, 6, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, ScanResult]]:
    """One audit of the Azure and inventory part of the example, on a data directory that tests copy."""
    folder = tmp_path_factory.mktemp("first")
    for part in ("azure", "inventory"):
        shutil.copytree(room("examples") / "estate" / part, folder / "landing" / part)
    yield folder, scan(request(folder), Silent(), NOW)


def request(folder: Path, **more: Any) -> ScanRequest:
    made = make_request(paths=(str(folder / "landing"),), data_dir=folder / "data", as_of=date(2026, 10, 1))
    return replace(made, **more)


@pytest.fixture
def place(first: tuple[Path, ScanResult]) -> Iterator[Path]:
    """The folder of the first audit as that left it, landing files with their identity included."""
    folder = first[0]
    kept = folder.with_name("kept")
    shutil.copytree(folder / "data", kept)
    yield folder
    shutil.rmtree(folder / "data")
    kept.rename(folder / "data")


@pytest.fixture
def audits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the runs for which everything was read."""
    whole, runs = audit.audit, []

    def counted(*given: Any) -> Any:
        runs.append(given[2].run_id)
        return whole(*given)

    monkeypatch.setattr(audit, "audit", counted)
    return runs


def without_clock(result: ScanResult) -> tuple[dict[str, Any], str]:
    """What a run tells, but for its own id and time and how long its rules took."""
    document = {**result.document, "run": {**result.document["run"], "id": None}}
    extras = replace(result.extras, generated_at=None, rule_seconds=None, previous=None)
    return document, dump_extras(extras)


def test_an_unchanged_second_run_tells_what_a_whole_audit_would(place: Path, audits: list[str]) -> None:
    copy = place.with_name("copy")
    shutil.copytree(place / "data", copy)
    again = scan(request(place), Silent(), LATER)
    assert audits == []
    whole = scan(request(place, data_dir=copy, rule_globs=("*",)), Silent(), LATER)
    assert audits == [whole.run_id]
    assert without_clock(again) == without_clock(whole)
    assert again.exit_status == whole.exit_status
    assert (again.extras.previous.run_id, again.extras.generated_at) == (whole.extras.previous.run_id, LATER)
    assert {finding["status"] for finding in again.document["findings"]} == {"open"}
    shutil.rmtree(copy)


def test_a_told_again_run_is_kept_like_any_other(place: Path, first: tuple[Path, ScanResult]) -> None:
    again = scan(request(place), Silent(), LATER)
    with State.open(request(place).settings.state.address(place / "data")) as state:
        run = state.get_run()
        assert run is not None
        assert (run.id, run.status, run.exit_status) == (again.run_id, "complete", 0)
        assert run.note == f"nothing changed since run {first[1].run_id}"
        assert state.run_document(run.id) == again.document
        assert load_extras(state.run_extras(run.id)) == again.extras
        assert {finding.last_seen for finding in state.list_findings()} == {LATER}


def test_the_third_run_is_told_again_from_the_second(place: Path, audits: list[str]) -> None:
    second = scan(request(place), Silent(), LATER)
    third = scan(request(place), Silent(), LATER + timedelta(days=40))
    assert audits == []
    assert without_clock(third) == without_clock(second)
    assert third.extras.previous.run_id == second.run_id


def test_fail_on_asks_the_same_of_a_told_again_run(place: Path, audits: list[str]) -> None:
    assert scan(request(place, fail_on="low"), Silent(), LATER).exit_status == FOUND
    assert audits == []


def test_a_mute_and_an_acknowledgement_show_in_the_told_again_run(place: Path, audits: list[str]) -> None:
    copy = place.with_name("copy")
    with State.open(request(place).settings.state.address(place / "data")) as state:
        muted, known = (finding.id for finding in state.list_findings(limit=2))
        state.mute(author="ops", reason="migration", finding_id=muted, until=LATER + timedelta(days=2), now=NOW)
        state.ack(known, "ops", now=NOW)
    shutil.copytree(place / "data", copy)
    again = scan(request(place), Silent(), LATER)
    assert audits == []
    whole = scan(request(place, data_dir=copy, rule_globs=("*",)), Silent(), LATER)
    assert without_clock(again) == without_clock(whole)
    statuses = {finding["id"]: finding["status"] for finding in again.document["findings"]}
    assert (statuses[muted], statuses[known]) == ("muted", "acknowledged")
    assert again.document["totals"] != scan(request(place), Silent(), LATER + timedelta(days=3)).document["totals"]
    assert audits == [whole.run_id]
    shutil.rmtree(copy)


def rewritten(landing: Path) -> None:
    file = next(file for file in landing.rglob("*") if file.is_file())
    stat, text = file.stat(), file.read_bytes()
    file.write_bytes(text)  # the same bytes, size and time of change, and yet somebody wrote
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def added(landing: Path) -> None:
    (landing / "note.txt").write_text("hello")


def taken_away(landing: Path) -> None:
    next(file for file in landing.rglob("*") if file.is_file()).unlink()


def test_whatever_happens_to_a_file_everything_is_read_again_once(
    first: tuple[Path, ScanResult], audits: list[str], tmp_path: Path
) -> None:
    shutil.copytree(first[0] / "landing" / "inventory", tmp_path / "landing")
    asked, ids = request(tmp_path, rule_globs=("storage.*",)), []
    for change in (None, rewritten, added, taken_away):
        if change:
            change(tmp_path / "landing")
        ids.append(scan(asked, Silent(), LATER).run_id)
        scan(asked, Silent(), LATER)
        assert audits == ids, change


@pytest.mark.parametrize(
    "other",
    [
        {"as_of": date(2026, 9, 30)},
        {"lookback_days": 29},
        {"rule_globs": ("storage.*",)},
        {"overrides": {"storage.unattached_volume": {"idle_days": "9"}}},
    ],
)
def test_another_question_is_answered_anew(place: Path, audits: list[str], other: dict[str, Any]) -> None:
    made = request(place)
    if "overrides" in other:
        from auditor.detect.rule import load_rules

        rule = next(rule for rule in load_rules([room("rules")]) if rule.parameters)
        other = {"overrides": {rule.id: {name: str(p.default) for name, p in list(rule.parameters.items())[:1]}}}
    asked = replace(made, **other)
    result = scan(asked, Silent(), LATER)
    assert audits == [result.run_id]


def test_a_changed_rule_of_the_users_own_folder_is_run_again(place: Path, audits: list[str]) -> None:
    own = place / "own"
    shutil.copytree(room("rules") / "storage", own / "mine")
    for file in (own / "mine").glob("*.sql"):
        file.write_text(file.read_text().replace('id     = "storage.', 'id     = "mine.'))
    asked = request(place, rules_dirs=(own,))
    ids = [scan(asked, Silent(), LATER).run_id]
    scan(asked, Silent(), LATER)
    assert audits == ids
    rule = next((own / "mine").glob("*.sql"))
    rule.write_text(rule.read_text() + "\n")
    ids.append(scan(asked, Silent(), LATER).run_id)
    assert audits == ids
    shutil.rmtree(own)


def test_after_a_run_that_broke_off_everything_is_read_again(place: Path, audits: list[str]) -> None:
    with State.open(request(place).settings.state.address(place / "data")) as state:
        state.finish_run(state.begin_run(now=NOW), "failed", None)
    result = scan(request(place), Silent(), LATER)
    assert audits == [result.run_id]


def test_a_lake_that_lost_a_file_is_no_ground_to_tell_anything_again(place: Path) -> None:
    next((place / "data" / "lake").rglob("*.parquet")).unlink()
    with pytest.raises(Exception, match="missing from the lake"):
        scan(request(place), Silent(), LATER)


def test_without_a_data_directory_nothing_is_remembered(place: Path, audits: list[str]) -> None:
    asked = request(place, data_dir=None, paths=(str(place / "landing" / "inventory"),), rule_globs=("storage.*",))
    ids = [scan(asked, Silent(), LATER).run_id for _ in range(2)]
    assert audits == ids


def test_a_window_that_the_clock_moves_is_audited_anew(first: tuple[Path, ScanResult]) -> None:
    audit_settings = AuditSettings(hold_back_days=2)
    ends = [BillEnd("aws", date(2026, 10, 20), None)]
    during, after = datetime(2026, 10, 20, tzinfo=UTC), datetime(2026, 11, 3, tzinfo=UTC)
    assert spans(ends, audit_settings, None, None, during)["aws"][1] == datetime(2026, 10, 18, tzinfo=UTC)
    assert spans(ends, audit_settings, None, None, after)["aws"][1] == datetime(2026, 10, 20, tzinfo=UTC)
    inputs = reuse.Inputs("", "", during, tuple(ends), None, True, {})
    told = {"run": {"windows": {"aws": {"start": "2026-09-18T00:00:00Z", "end": "2026-10-18T00:00:00Z"}}}}
    asked = replace(request(first[0]), as_of=None)
    assert reuse._same_windows(told, inputs, asked, during + timedelta(hours=5))
    assert not reuse._same_windows(told, inputs, asked, after)


def test_with_a_clock_set_back_or_a_charge_come_true_all_is_looked_at_anew(place: Path, audits: list[str]) -> None:
    early = scan(request(place), Silent(), NOW - timedelta(days=1))
    assert audits == [early.run_id]
    inputs = reuse.Inputs("", "", NOW, (), date(2026, 10, 6), True, {})
    assert reuse.is_ahead(inputs.dated_ahead, NOW)
    assert not reuse.is_ahead(inputs.dated_ahead, NOW + timedelta(days=2))


def test_inputs_survive_the_state() -> None:
    inputs = reuse.Inputs(
        "a",
        "f",
        NOW,
        (BillEnd("aws", date(2026, 10, 1), NOW), BillEnd("gcp", date(2026, 9, 9), None)),
        NOW.date(),
        True,
        {"a.b": ("a.c",)},
    )
    kept = reuse.Inputs.from_record(inputs.record())
    assert replace(kept, former_ids={"a.b": tuple(kept.former_ids["a.b"])}) == inputs


@pytest.mark.parametrize(
    ("message", "is_lasting"),
    [
        ("bill.csv.gz: the file is damaged: its checksum differs", True),
        ("cannot be read (OutOfMemoryException: Out of Memory Error: failed to allocate)", False),
        ("cannot be opened: [Errno 13] Permission denied: 'bill.csv'", False),
        ("cannot be opened: [Errno 28] No space left on device", False),
    ],
)
def test_only_a_failure_that_would_repeat_is_told_again(message: str, *, is_lasting: bool) -> None:
    report = SourceReport("aws", "billing", None, ["bill.csv"], 1, 0, [], "failed", message)
    assert reuse.may_be_told_again([report], failed_rules=False) is is_lasting
    assert not reuse.may_be_told_again([], failed_rules=True)


def test_a_file_written_this_very_moment_is_not_trusted_before_the_clock_has_moved(tmp_path: Path) -> None:
    file = tmp_path / "bill.csv"
    file.write_text("a")
    landed = reuse.identify([str(tmp_path)])
    assert landed.identity is not None
    file.write_text("b")  # same size, and after the wait another time
    assert reuse.identify([str(tmp_path)]).identity != landed.identity
