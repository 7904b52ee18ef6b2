"""The configuration: typed, defaulted, and helpful when it is wrong."""

from decimal import Decimal
from pathlib import Path

import pytest

from auditor.errors import SettingsError
from auditor.settings import load, parse


def test_nothing_configured_means_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None).audit.lookback_days == 30


def test_a_file_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "auditor.toml").write_text(
        '[audit]\nlookback_days = 14\nmax_utilization = "0.10"\n[rules."gpu.idle_instance"]\nenabled = false\n'
    )
    settings = load(None)
    assert settings.audit.lookback_days == 14
    assert settings.audit.max_utilization == Decimal("0.10")
    assert settings.rules["gpu.idle_instance"] == {"enabled": False}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"audit": {"lookback_day": 3}}, "did you mean 'lookback_days'"),
        ({"audits": {}}, "did you mean 'audit'"),
        ({"audit": {"lookback_days": 0}}, "audit.lookback_days"),
        ({"audit": {"lookback_days": "many"}}, "found 'many'"),
        ({"sources": {"files": [{"name": "x"}]}}, "sources.files.0.paths"),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_would_be_right(table: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match="configuration here") as error:
        parse(table, "here")
    assert says in str(error.value)


def test_tag_lists_replace_the_built_in_ones() -> None:
    tags = parse({"tags": {"owner_tags": ["verantwortlich"]}}, "here").tags.settings()
    assert tags.owner_tags == ("verantwortlich",)
    assert "job name" in tags.job_tags


def test_broken_toml_says_where(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text("[audit\n")
    with pytest.raises(SettingsError, match=r"a\.toml: not valid TOML"):
        load(path)
