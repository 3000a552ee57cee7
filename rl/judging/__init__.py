"""Judges and verifiers: what they are asked, what they answer, and how well they agree."""
