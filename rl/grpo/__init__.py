"""Group-relative policy optimisation: advantages, calibration, training batches and the loss."""
