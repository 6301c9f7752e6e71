"""Where programs look for the description of targets."""
