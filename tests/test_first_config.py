"""The first configuration, permissions, and what doctor says of rules."""

import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from auditor import collect, readiness
from auditor.assets import room
from auditor.checks import Check
from auditor.cli.app import app
from auditor.detect import load_rules
from auditor.errors import SettingsError
from auditor.examine import examine
from auditor.first_config import Answers, configuration
from auditor.settings import load, parse
from auditor.views import VIEWS


def example() -> str:
    return (room("config") / "auditor.example.toml").read_text("utf-8")


def test_without_answers_the_example_is_written_as_it_is() -> None:
    assert configuration(example(), Answers()) == example()


def test_answers_are_filled_in_and_everything_else_stays_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "auditor.toml"
    asked = [
        "init", str(path), "--aws-export", "s3://acme-cur/daily", "--aws-export", "s3://acme-cur/two",
        "--gcp-dataset", "acme-ml.billing", "--azure-scope", "/subscriptions/8a4f11aa-0000-1111-2222-333344445555",
        "--prometheus", "https://prometheus.example.com", "--path", "/srv/exports", "--data-dir", "/var/lib/auditor",
        "--mail-to", "lena@example.com", "--smtp-host", "smtp.example.com",
    ]  # fmt: skip
    told = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert "auditor permissions aws" in told.output
    settings = load(path)
    assert settings.sources.aws[0].exports == ["s3://acme-cur/daily", "s3://acme-cur/two"]
    assert settings.sources.gcp[0].billing_dataset == "acme-ml.billing"
    assert settings.sources.azure[0].scopes == ["/subscriptions/8a4f11aa-0000-1111-2222-333344445555"]
    assert settings.sources.prometheus[0].url == "https://prometheus.example.com"
    assert settings.sources.files[0].paths == ["/srv/exports"]
    assert settings.lake.data_dir == Path("/var/lib/auditor")
    assert settings.delivery.smtp is not None
    assert (settings.delivery.smtp.recipients, settings.delivery.smtp.sender) == (
        ["lena@example.com"],
        "auditor@example.com",
    )
    assert len(path.read_text("utf-8").splitlines()) == len(example().splitlines())
    assert set(tomllib.loads(path.read_text("utf-8"))["sources"]) == {"files", "aws", "gcp", "azure", "prometheus"}


def test_an_answer_that_cannot_be_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "auditor.toml"
    with pytest.raises(SettingsError, match="http only for this machine"):
        CliRunner().invoke(app, ["init", str(path), "--prometheus", "http://far.example.com"], catch_exceptions=False)
    with pytest.raises(SettingsError, match="go together"):
        CliRunner().invoke(app, ["init", str(path), "--mail-to", "a@example.com"], catch_exceptions=False)
    assert not path.exists()


@pytest.mark.parametrize("cloud", collect.CLOUDS)
def test_permissions_are_printed_for_each_cloud(cloud: str) -> None:
    told = CliRunner().invoke(app, ["permissions", cloud], catch_exceptions=False)
    assert told.exit_code == 0
    assert told.output.strip() == collect.policy(cloud).strip()
    assert len(told.output) > 200


def test_every_view_a_rule_reads_is_of_a_known_kind_of_data() -> None:
    assert set(readiness.KINDS) == set(VIEWS)


def test_doctor_tells_rule_by_rule_what_is_missing() -> None:
    bills = parse(
        {"sources": {"aws": [{"name": "a", "exports": ["s3://b/p"], "metrics": False, "inventory": False}]}}, "x"
    )
    said = {each.subject: each for each in readiness.readiness(bills, None)}
    groups = {rule.id.partition(".")[0] for rule in load_rules([room("rules")])}
    assert set(said) == {f"rules {group}" for group in groups}
    assert said["rules gpu"].state == "warn"
    # it judges an accelerator's hours by their samples; a cheaper generation is seen in the bill and bundled facts
    assert "gpu.idle_instance (without telemetry)" in said["rules gpu"].text.partition("skipped: ")[2]
    assert "gpu.previous_generation" not in said["rules gpu"].text
    assert "dcgm-exporter" in str(said["rules gpu"].fix)
    whole = {"name": "a", "exports": ["s3://b/p"], "flow_logs": ["s3://b/f"]}
    assert {each.state for each in readiness.readiness(parse({"sources": {"aws": [whole]}}, "x"), None)} == {"ok"}


def test_doctor_tells_what_the_newest_audit_could_not_look_at() -> None:
    rules = [
        {"rule_id": "gpu.idle_instance", "status": "ran", "reason": None},
        {"rule_id": "gpu.idle_notebook", "status": "skipped", "reason": "no inventory of notebooks for aws"},
        {"rule_id": "network.nat_idle", "status": "degraded", "reason": "no flow logs for aws"},
    ]
    said = {each.subject: each for each in readiness.readiness(parse({}, "x"), {"coverage": {"rules": rules}})}
    assert said["rules gpu"].text == (
        "in the newest audit 1 ran, 1 skipped: gpu.idle_notebook (no inventory of notebooks for aws)"
    )
    assert "auditor permissions" in str(said["rules gpu"].fix)
    assert "create-flow-logs" in str(said["rules network"].fix)


def test_doctor_asks_live_sources_and_prints_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from auditor.collect import slurm

    def check(source: object) -> list[Check]:
        raise RuntimeError("the SDK broke\nat length")

    config = tmp_path / "auditor.toml"
    config.write_text('[[sources.slurm]]\nname = "hpc"\ncommand = ["/nowhere/sacct"]\n', "utf-8")
    told = CliRunner().invoke(app, ["doctor", "-c", str(config), "--data-dir", str(tmp_path / "data")])
    assert told.exit_code == 3
    assert "source hpc: /nowhere/sacct cannot be run" in told.output
    assert "set `command` of [[sources.slurm]]" in told.output
    monkeypatch.setattr(slurm, "check", check)
    said = examine(load(config), tmp_path / "data", datetime(2026, 10, 1, tzinfo=UTC))
    assert "cannot be looked at (RuntimeError: the SDK broke)" in {each.text for each in said}
