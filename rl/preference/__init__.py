"""Learning from demonstrations and preferences: data and losses of SFT and DPO."""
