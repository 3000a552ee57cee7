"""DiscoverLLM: intent trees, the transition kernel, the reward and the simulated user's turns."""
