"""Each time at which a job is due is run by one daemon."""

from datetime import timedelta

import pytest

from auditor.state import State
from auditor.state.slots import MAX_ATTEMPTS
from tests.state.conftest import NOW

SLOT = "2026-03-01T06:00"
LATER = NOW + timedelta(minutes=3)


def claim(state: State, owner: str = "a", **more: object) -> str | None:
    return state.claim_job("audit", SLOT, NOW, owner, **more)  # type: ignore[arg-type]


def test_one_daemon_claims_a_slot(state: State) -> None:
    token = claim(state)
    assert token is not None
    assert claim(state, "b") is None
    state.end_job(token, "done")
    assert claim(state, "b", now=NOW + timedelta(days=9)) is None
    [slot] = state.slots()
    assert (slot.job, slot.slot, slot.status, slot.owner, slot.attempts) == ("audit", SLOT, "done", "a", 1)


def test_the_slot_of_a_dead_daemon_is_taken_over_and_its_owner_is_told(state: State) -> None:
    first = claim(state)
    assert first is not None
    assert state.beat_job(first, now=NOW + timedelta(minutes=1))
    assert claim(state, "b", now=NOW + timedelta(minutes=2)) is None
    assert [slot.slot for slot in state.unfinished_jobs(now=NOW + timedelta(minutes=9))] == [SLOT]
    assert claim(state, "b", now=NOW + timedelta(minutes=9)) is not None
    assert not state.beat_job(first, now=NOW + timedelta(minutes=9))


def test_a_claim_made_before_the_clock_was_set_back_does_not_hold_for_years(state: State) -> None:
    assert claim(state, now=NOW + timedelta(days=9000)) is not None
    assert claim(state, "b") is not None


def test_a_failed_slot_is_run_again_at_its_time_and_given_up_in_the_end(state: State) -> None:
    token = claim(state)
    for turn in range(1, MAX_ATTEMPTS):
        assert token is not None
        state.end_job(token, "failed", error="disk full", retry_at=LATER)
        assert claim(state, now=LATER - timedelta(seconds=1)) is None
        token = claim(state, now=LATER)
        assert state.slots()[0].attempts == turn + 1
    assert token is not None
    state.end_job(token, "failed", error="disk full", retry_at=LATER)
    assert claim(state, now=LATER) is None
    assert state.unfinished_jobs(now=LATER) == []


def test_a_job_met_for_the_first_time_has_a_baseline_and_slots_ahead_of_the_clock_do_not_count(state: State) -> None:
    assert state.newest_slot("audit") is None
    state.note_baseline("audit", SLOT, NOW)
    state.note_baseline("audit", SLOT, NOW)
    state.claim_job("audit", "2096-03-01T06:00", NOW + timedelta(days=25567), "a")
    newest = state.newest_slot("audit")
    assert newest is not None
    assert (newest.slot, newest.status) == (SLOT, "baseline")
    assert claim(state) is None


def test_old_slots_are_forgotten_but_the_newest_of_each_job(state: State) -> None:
    for days in (400, 399):
        state.note_baseline("audit", f"{days} days ago", NOW - timedelta(days=days))
    assert state.forget_slots(NOW - timedelta(days=100)) == 1
    assert [slot.slot for slot in state.slots()] == ["399 days ago"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_state_that_answers_says_so(state: State) -> None:
    state.ping()
