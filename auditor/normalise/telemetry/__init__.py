"""Telemetry in: recognises monitoring answers of every cloud and turns them into samples of one table."""

from auditor.normalise.telemetry.finish import finish
from auditor.normalise.telemetry.loading import load
from auditor.normalise.telemetry.recognise import recognise

__all__ = ["finish", "load", "recognise"]
