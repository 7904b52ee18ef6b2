"""Finds waste: rules in SQL over the views, and a settlement so that no dollar is saved twice."""

from auditor.detect.pages import rule_page, rule_pages
from auditor.detect.rule import Rule, checked_overrides, load_rule, load_rules
from auditor.detect.run import DetectResult, RuleCoverage, Window, detect
from auditor.detect.settle import settle, severity_of

__all__ = [
    "DetectResult",
    "Rule",
    "RuleCoverage",
    "Window",
    "checked_overrides",
    "detect",
    "load_rule",
    "load_rules",
    "rule_page",
    "rule_pages",
    "settle",
    "severity_of",
]
