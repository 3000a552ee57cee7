"""The typed configuration: schema, composition from ``configs/``, validation before models load."""
