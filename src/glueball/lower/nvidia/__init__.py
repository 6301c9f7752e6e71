"""Lowering of what only NVIDIA GPUs have; importing a module registers its rules."""
