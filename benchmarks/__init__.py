"""Speed, always as a ratio to a named rival or to the machine's own peak, in the same run."""
