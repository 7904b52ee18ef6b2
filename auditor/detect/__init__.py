"""Finds waste: rules in SQL over the views, and a settlement so that no dollar is saved twice."""

from auditor.detect.rule import Rule, load_rule, load_rules
from auditor.detect.run import DetectResult, RuleCoverage, Window, detect
from auditor.detect.settle import settle, severity_of

__all__ = [
    "DetectResult",
    "Rule",
    "RuleCoverage",
    "Window",
    "detect",
    "load_rule",
    "load_rules",
    "settle",
    "severity_of",
]
