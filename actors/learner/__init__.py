"""The DeepSpeed learner: one actor a rank, and the group that drives them."""
