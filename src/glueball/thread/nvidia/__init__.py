"""Instructions that only NVIDIA targets have."""
