"""Billing exports to FOCUS charges, one day a row."""
