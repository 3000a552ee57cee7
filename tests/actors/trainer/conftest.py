"""Hypothesis without deadlines: on a shared machine the wall clock says nothing about the code."""

from hypothesis import settings

settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
