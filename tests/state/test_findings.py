"""The life of a finding."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from auditor.errors import SettingsError
from auditor.finding import Finding
from auditor.records import Claim, MuteRecord, RealisedSaving
from auditor.state import State
from tests.state.conftest import NOW, a_finding, empty_database

ALL = {("gpu.idle_instance", "aws"), ("network.nat_idle", "aws")}
IDLE = a_finding()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The life of a finding is the same on both; what differs between them is tested next door."""
    return empty_database(request, tmp_path)


def audit(
    state: State, *findings: Finding, judged: set[tuple[str, str]] = ALL, status: str = "complete", **more: object
) -> list[str]:
    run = state.begin_run()
    settled = state.record_findings(run, findings, judged, **more)  # type: ignore[arg-type]
    state.finish_run(run, status, {})
    return [finding.status for finding in settled]


def stored(state: State, finding: Finding = IDLE) -> str:
    return state.get_finding(finding.id).record.status


def history(state: State, finding: Finding = IDLE) -> list[tuple[str | None, str]]:
    return [(event.status_from, event.status_to) for event in state.get_finding(finding.id).events]


def test_a_finding_is_new_then_open_then_resolved_then_reopened(state: State) -> None:
    assert audit(state, IDLE) == ["new"]
    assert audit(state, IDLE) == ["open"]
    assert audit(state, IDLE) == ["open"]
    assert audit(state) == []
    assert stored(state) == "resolved"
    assert audit(state, IDLE) == ["reopened"]
    assert audit(state, IDLE) == ["open"]
    steps = [(None, "new"), ("new", "open"), ("open", "resolved"), ("resolved", "reopened"), ("reopened", "open")]
    assert history(state) == steps
    assert state.get_finding(IDLE.id).record.resolved_at is None


def test_each_finding_gets_its_own_status_in_the_order_given(state: State) -> None:
    audit(state, a_finding("i-0b"))
    assert audit(state, a_finding("i-0a"), a_finding("i-0b"), a_finding("i-0c")) == ["new", "open", "new"]


def test_recording_a_run_twice_changes_nothing(state: State) -> None:
    run = state.begin_run()
    for _ in range(2):
        assert [finding.status for finding in state.record_findings(run, [IDLE], ALL)] == ["new"]
    assert history(state) == [(None, "new")]


def test_a_finding_that_no_report_showed_is_still_new(state: State) -> None:
    state.record_findings(state.begin_run(), [IDLE], ALL)  # the run dies here
    assert audit(state, IDLE, status="failed") == ["new"]
    assert audit(state, IDLE) == ["new"]
    assert audit(state, IDLE) == ["open"]


@pytest.mark.parametrize("judged", [set(), {("network.nat_idle", "aws")}, {("gpu.idle_instance", "gcp")}])
def test_incomplete_data_resolves_nothing(state: State, judged: set[tuple[str, str]]) -> None:
    audit(state, IDLE)
    audit(state, judged=judged)
    assert stored(state) == "new"


def test_an_account_without_data_resolves_nothing(state: State) -> None:
    elsewhere = a_finding(sub_account_id="777788889999")
    audit(state, IDLE, elsewhere)
    audit(state, unjudged_accounts={("aws", "444455556666")})
    assert (stored(state), stored(state, elsewhere)) == ("new", "resolved")


def test_the_findings_a_run_resolved_come_with_their_last_figures(state: State) -> None:
    audit(state, IDLE, a_finding("i-0b"))
    run = state.begin_run()
    state.record_findings(run, [a_finding("i-0b")], ALL)
    [gone] = state.resolved_in(run)
    assert (gone.id, gone.status, gone.monthly_savings_net) == (IDLE.id, "resolved", Decimal(100))


def test_a_finding_comes_back_as_it_was_given(state: State) -> None:
    finding = replace(IDLE, monthly_savings=Decimal("33.3333333333333333"), instead_of=("gpu.other",))
    audit(state, finding)
    found = state.get_finding(IDLE.id)
    evidence = {"max_utilization": "0.01", "since": "2026-03-01T06:00:00+00:00"}
    assert found.finding == replace(finding, status="new", evidence=evidence)
    assert found.record.monthly_savings == Decimal("33.333333333333")
    assert (found.record.first_seen, found.record.last_seen) == (NOW, NOW)


def test_the_newest_figures_count_and_the_first_sight_stays(state: State) -> None:
    audit(state, IDLE)
    audit(state, replace(IDLE, monthly_savings_net=Decimal(7), severity="low"), now=NOW + timedelta(days=1))
    [record] = state.list_findings()
    assert (record.monthly_savings_net, record.severity) == (Decimal(7), "low")
    assert (record.first_seen, record.last_seen) == (NOW, NOW + timedelta(days=1))


def test_an_acknowledged_finding_stays_so_until_it_is_resolved(state: State) -> None:
    audit(state, IDLE)
    state.ack(IDLE.id, "ana", "moving it in May")
    assert audit(state, IDLE) == ["acknowledged"]
    event = state.get_finding(IDLE.id).events[-1]
    assert (event.status_to, event.author, event.note) == ("acknowledged", "ana", "moving it in May")
    audit(state)
    with pytest.raises(SettingsError, match="is resolved"):
        state.ack(IDLE.id, "ana")
    assert audit(state, IDLE) == ["reopened"]
    assert state.get_finding(IDLE.id).record.acknowledged_by is None


def test_unknown_ids_are_errors(state: State) -> None:
    for wrong in (lambda: state.ack("x", "ana"), lambda: state.get_finding("x"), lambda: state.unmute("x", "ana")):
        with pytest.raises(SettingsError, match="'x'"):
            wrong()
    with pytest.raises(SettingsError, match="'x'"):
        state.mute(author="ana", reason="r", finding_id="x")
    with pytest.raises(SettingsError, match="no run"):
        state.record_findings("x", [], set())


def test_a_mute_silences_at_once_and_for_new_findings_until_it_is_removed(state: State) -> None:
    audit(state, IDLE)
    mute = state.mute(author="ana", reason="load test", rule="gpu.*", account="444455556666")
    assert stored(state) == "muted"
    other = a_finding("n-1", "network.nat_idle")
    assert audit(state, IDLE, a_finding("i-0b"), other) == ["muted", "muted", "new"]
    state.unmute(mute.id, "ben")
    assert (stored(state), stored(state, a_finding("i-0b"))) == ("open", "open")
    assert state.get_finding(IDLE.id).events[-1].author == "ben"
    assert state.mutes_list() == []


def test_a_mute_runs_out(state: State) -> None:
    audit(state, IDLE)
    state.ack(IDLE.id, "ana")
    state.mute(author="ana", reason="freeze", finding_id=IDLE.id, until=NOW + timedelta(days=2))
    assert audit(state, IDLE, now=NOW + timedelta(days=1)) == ["muted"]
    assert state.expire_mutes(NOW + timedelta(days=1)) == 0
    assert state.expire_mutes(NOW + timedelta(days=2)) == 1
    assert stored(state) == "acknowledged"
    assert state.mutes_list(now=NOW + timedelta(days=2)) == []
    assert len(state.mutes_list(now=NOW + timedelta(days=2), expired=True)) == 1


def test_an_audit_ends_a_mute_that_ran_out(state: State) -> None:
    audit(state, IDLE)
    state.mute(author="ana", reason="freeze", rule="gpu.idle_instance", until=NOW + timedelta(days=2))
    assert audit(state, IDLE, now=NOW + timedelta(days=2)) == ["open"]


def test_a_finding_stays_muted_while_another_mute_covers_it(state: State) -> None:
    audit(state, IDLE)
    first = state.mute(author="ana", reason="one", rule="gpu.*")
    second = state.mute(author="ana", reason="two", resource="i-0a")
    state.unmute(first.id, "ana")
    assert (stored(state), state.get_finding(IDLE.id).record.mute_id) == ("muted", second.id)


def test_a_muted_finding_that_is_gone_is_resolved(state: State) -> None:
    audit(state, IDLE)
    state.mute(author="ana", reason="one", rule="gpu.*")
    audit(state)
    assert stored(state) == "resolved"
    assert audit(state, IDLE) == ["muted"]


def test_mutes_of_the_configuration_hold_while_they_stand_there(state: State) -> None:
    configured = MuteRecord("config-1", "ana", "pilot", tag="team=vision")
    assert audit(state, IDLE, mutes=[configured]) == ["muted"]
    state.expire_mutes(NOW)
    assert stored(state) == "muted"
    assert audit(state, IDLE) == ["open"]


def test_a_renamed_rule_keeps_its_mutes_and_resolves_its_old_findings(state: State) -> None:
    old = a_finding(rule_id="gpu.lazy_instance")
    audit(state, old, judged=set())
    state.mute(author="ana", reason="one", rule="gpu.lazy_instance")
    assert audit(state, IDLE, former_ids={"gpu.idle_instance": ["gpu.lazy_instance"]}) == ["muted"]
    assert stored(state, old) == "resolved"


@pytest.mark.parametrize(
    ("scope", "is_covered"),
    [
        ({"rule": "gpu.idle_instance"}, True),
        ({"rule": "network.*"}, False),
        ({"resource": "I-0A"}, True),
        ({"resource": "i-0*"}, True),
        ({"resource": "i-1*"}, False),
        ({"resource": "trainer-*"}, True),
        ({"account": "111122223333"}, False),
        ({"tag": "team"}, True),
        ({"tag": "TEAM=Vision"}, True),
        ({"tag": "cost-center=4*"}, True),
        ({"tag": "team=speech"}, False),
        ({"rule": "gpu.*", "account": "111122223333"}, False),
        ({"rule": "gpu.*", "tag": "team=vision"}, True),
    ],
)
def test_a_mute_covers_what_all_its_scopes_match(tmp_path: Path, scope: dict[str, str], is_covered: bool) -> None:
    named = replace(IDLE, resource_name="trainer-1")
    with State.open(str(tmp_path / "state.db"), clock=lambda: NOW) as state:
        audit(state, named)
        state.mute(author="ana", reason="r", **scope)  # type: ignore[arg-type]
        assert stored(state) == ("muted" if is_covered else "new")
        assert audit(state, named) == ["muted" if is_covered else "open"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rule": "gpu.*", "reason": " "},
        {"rule": "gpu.*", "author": ""},
        {"rule": "gpu.*", "until": NOW},
        {"rule": "gpu.*", "until": datetime(2030, 1, 1)},
    ],
)
def test_a_mute_without_scope_author_reason_or_future_is_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    with State.open(str(tmp_path / "state.db"), clock=lambda: NOW) as state:
        with pytest.raises(SettingsError, match="a mute"):
            state.mute(**({"author": "ana", "reason": "r"} | wrong))  # type: ignore[arg-type]
        assert state.mutes_list() == []


def test_findings_are_listed_by_what_is_asked_with_the_dearest_first(state: State) -> None:
    nine = replace(IDLE, monthly_savings_net=Decimal(9), severity="low", owner="vision")
    ten = replace(a_finding("n_1", "network.nat_idle"), monthly_savings_net=Decimal(10))
    hundred = replace(
        a_finding("n-2", "network.nat_idle", provider="gcp"), monthly_savings_net=Decimal(100), severity="critical"
    )
    audit(state, nine, ten, hundred)
    state.ack(ten.id, "ana")

    def ids(**conditions: object) -> list[str]:
        return [record.id for record in state.list_findings(**conditions)]  # type: ignore[arg-type]

    assert ids() == [hundred.id, ten.id, nine.id]
    assert ids(limit=1) == [hundred.id]
    assert ids(rule="network.*") == [hundred.id, ten.id]
    assert ids(rule="network_nat*") == []
    assert ids(provider="gcp") == [hundred.id]
    assert ids(owner="vision") == [nine.id]
    assert ids(resource_id="n_1", sub_account_id="444455556666") == [ten.id]
    assert ids(severity_at_least="medium") == [hundred.id, ten.id]
    assert ids(status=["new", "reopened"]) == [hundred.id, nine.id]


SLOT = ("smtp", "finops@example.com", "report 2026-03-02T07:00")


def claim(state: State, slot: tuple[str, str, str] = SLOT, **more: object) -> Claim | None:
    return state.claim_slot(*slot, message_id="<a@example.com>", **more)  # type: ignore[arg-type]


def taken(state: State, **more: object) -> Claim:
    found = claim(state, **more)
    assert found is not None
    return found


def test_a_report_is_claimed_by_one_sender_only(state: State) -> None:
    assert taken(state).attempt == 1
    assert claim(state) is None
    assert claim(state, ("smtp", "ops@example.com", SLOT[2])) is not None


def test_a_report_that_failed_is_claimed_again_when_its_time_has_come_with_the_same_message_id(state: State) -> None:
    state.slot_failed(taken(state), "connection refused", retry_at=NOW + timedelta(minutes=2))
    assert claim(state, now=NOW + timedelta(minutes=1)) is None
    again = state.claim_slot(*SLOT, message_id="<other@example.com>", now=NOW + timedelta(minutes=3))
    assert again is not None
    assert (again.message_id, again.attempt) == ("<a@example.com>", 2)
    state.slot_sent(again)
    assert claim(state, now=NOW + timedelta(days=9)) is None
    [sent] = state.notifications(status="sent")
    assert (sent.recipient, sent.sent_at, sent.error, sent.attempts) == ("finops@example.com", NOW, None, 2)


def test_a_report_that_was_given_up_is_not_claimed_again(state: State) -> None:
    state.slot_failed(taken(state), "no such mailbox")
    assert claim(state, now=NOW + timedelta(days=9)) is None
    assert claim(state, force=True) is not None


def test_a_sender_that_dies_before_handing_over_is_replaced_and_cannot_come_back(state: State) -> None:
    first = taken(state)
    second = taken(state, now=NOW + timedelta(hours=1))
    assert not state.slot_sending(first)
    assert state.slot_sending(second)


def test_a_sender_that_dies_while_handing_over_leaves_the_slot_unknown_for_force_only(state: State) -> None:
    assert state.slot_sending(taken(state))
    assert state.settle_unknown(now=NOW + timedelta(minutes=1)) == 0
    assert claim(state, now=NOW + timedelta(hours=1)) is None
    assert state.settle_unknown(now=NOW + timedelta(hours=1)) == 1
    assert [each.status for each in state.notifications()] == ["unknown"]
    assert claim(state, now=NOW + timedelta(days=9)) is None
    assert taken(state, force=True).message_id == "<a@example.com>"


def test_the_last_report_is_that_of_an_earlier_slot_that_was_sent(state: State) -> None:
    run = state.begin_run()
    for slot in ("report 2026-02-23T07:00", "digest 2026-03-01T07:00"):
        found = state.claim_slot("smtp", "finops@example.com", slot, message_id="<b@example.com>", run_id=run)
        assert found is not None
        state.slot_sent(found)
    found = state.claim_slot(
        "smtp", "ops@example.com", "report 2026-02-23T07:00", message_id="<c@example.com>", run_id=run
    )
    assert found is not None
    state.slot_unknown(found, "connection lost")
    assert state.last_reported_run("smtp", "finops@example.com", kind="report", before_slot=SLOT[2]) == run
    assert state.last_reported_run("smtp", "ops@example.com", kind="report", before_slot=SLOT[2]) is None


def test_changes_between_two_runs_are_told_once_a_finding(state: State) -> None:
    runs = []
    for turn, present in enumerate((["kept", "gone"], ["kept", "brief"], ["kept", "fresh"], ["kept", "fresh", "gone"])):
        runs.append(state.begin_run())
        found = [a_finding(subject, monthly_savings_net=Decimal(turn)) for subject in present]
        state.record_findings(runs[-1], found, {("gpu.idle_instance", "aws")})
        state.finish_run(runs[-1], "complete", {})
    between = {(change.kind, change.record.subject) for change in state.changes(runs[2], runs[0])}
    assert between == {("resolved", "gone"), ("new", "fresh")}
    whole = {(change.kind, change.record.subject) for change in state.changes(runs[3], runs[0])}
    assert whole == {("reopened", "gone"), ("new", "fresh")}
    assert [change.kind for change in state.changes(runs[0])] == ["new", "new"]


def test_resolved_findings_come_with_the_window_of_their_last_sight(state: State) -> None:
    run = state.begin_run()
    state.record_findings(run, [IDLE], ALL)
    later = state.begin_run()
    state.record_findings(later, [], ALL)
    [(record, finding)] = state.resolved_findings(NOW - timedelta(days=1))
    assert (record.id, record.status, finding.window_end) == (IDLE.id, "resolved", IDLE.window_end)
    assert state.resolved_findings(NOW + timedelta(days=1)) == []


def test_realised_savings_are_kept_once_a_period(state: State) -> None:
    audit(state, IDLE)
    run = state.begin_run()
    saving = RealisedSaving(
        IDLE.id, "2026-03", "USD", Decimal(100), Decimal("0.000000000001"), Decimal("99.999999999999"), Decimal("98.7")
    )
    state.record_realised(run, [replace(saving, realised_savings=Decimal(1))])
    state.record_realised(run, [saving])
    assert state.realised_savings(billing_period="2026-03") == [saving]
    assert state.realised_savings(billing_period="2026-04") == []


def test_names_that_no_database_takes_are_stored_all_the_same(state: State) -> None:
    odd = a_finding(resource_name="train\0er\ud800", tags={"team": "a\0b\ud800"})
    audit(state, odd)
    detail = state.get_finding(odd.id)
    assert detail.record.resource_name == "trainer?"
    assert (detail.finding.resource_name, detail.finding.tags) == ("train\0er\ud800", {"team": "a\0b\ud800"})


def test_an_unknown_severity_is_an_error(state: State) -> None:
    with pytest.raises(SettingsError, match="no severity is called 'urgent'; there are low"):
        state.list_findings(severity_at_least="urgent")


@pytest.mark.slow
def test_a_hundred_thousand_findings_are_listed_within_two_seconds_of_processor_time(state: State) -> None:
    audit(state, *(a_finding(f"i-{number:08x}", monthly_savings_net=Decimal(number)) for number in range(100_000)))
    begin = time.process_time()
    records = state.list_findings()
    took = time.process_time() - begin
    assert (len(records), records[0].monthly_savings_net) == (100_000, 99_999)
    assert took < 2


def test_times_are_kept_in_utc(state: State) -> None:
    run = state.begin_run(now=datetime.fromisoformat("2026-03-01T08:00:00+02:00"))
    [record] = state.runs_list()
    assert record.id == run
    assert record.started_at == datetime(2026, 3, 1, 6, tzinfo=UTC)
    assert record.started_at.tzinfo is UTC
