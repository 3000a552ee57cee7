"""Dialogues as token trees, and the records of what happened in them."""
