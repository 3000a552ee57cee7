"""The typed configuration: schema, composition from ``configs/``, and validation before anything loads."""
