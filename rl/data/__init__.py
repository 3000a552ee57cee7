"""Bundled tasks and dialogues (package data), and the readers that check task files."""
