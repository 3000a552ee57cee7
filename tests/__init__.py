"""Tests mirror the code; shared helpers are importable as ``tests.…``."""
