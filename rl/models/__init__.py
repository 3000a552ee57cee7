"""Where base models come from: a package, a tiny random model, a folder or a hub id."""
