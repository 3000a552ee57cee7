"""The science of Discern: pure, typed Python and torch; it imports no Ray, vLLM or DeepSpeed."""
