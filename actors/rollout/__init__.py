"""vLLM rollout workers that hold many adapter versions, and the pool that spreads requests."""
