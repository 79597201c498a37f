"""The search for settings, by validation."""
