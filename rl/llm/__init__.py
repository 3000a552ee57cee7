"""Asking a language model for structured answers."""
