"""The training loop: admits episodes, cuts batches, trains, publishes, records, resumes."""
