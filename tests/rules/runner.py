"""Where the cases of the shipped rules lie: tests/rules/<area>/<stem>.toml."""

from pathlib import Path

from auditor.assets import room
from auditor.detect.cases import Case, fill, plain, read_cases
from auditor.detect.rule import Rule, load_rule

__all__ = ["CASES", "Case", "all_rules", "case_file", "fill", "load_cases", "plain", "rule_of"]

CASES = Path(__file__).parent


def all_rules() -> list[Path]:
    return sorted(room("rules").glob("*/*.sql"))


def case_file(rule: Path) -> Path:
    return CASES / rule.parent.name / f"{rule.stem}.toml"


def load_cases(rule: Path) -> list[Case]:
    path = case_file(rule)
    return read_cases(path, f"{rule.parent.name}.{rule.stem}") if path.exists() else []


def rule_of(case: Case) -> Rule:
    area, stem = case.rule_id.split(".")
    return load_rule(room("rules") / area / f"{stem}.sql")
