"""Measures assistants and judges: suites, metrics, intervals, tables."""
