"""The command line: parses, calls one function, prints."""

from auditor.cli.app import main as main
