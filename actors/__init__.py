"""The plumbing of Discern: the only code that knows Ray, vLLM and DeepSpeed."""
