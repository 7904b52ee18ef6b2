"""Writes rules/README.md from the headers: `python -m tests.rules.write_pages`."""

from auditor.assets import room
from auditor.detect import load_rules, rule_pages

if __name__ == "__main__":
    (room("rules") / "README.md").write_text(rule_pages(load_rules([room("rules")])), encoding="utf-8")
