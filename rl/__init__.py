"""The science of Discern: pure, typed Python and torch; no Ray, vLLM, DeepSpeed or verl at import."""
