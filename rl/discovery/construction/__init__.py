"""Builds intent trees from artefacts with a language model (specification §1)."""
