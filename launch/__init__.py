"""One entry point a job: thin scripts over `rl` and `actors`."""
