"""The parts of `glueball.kernels.gemm`: kernels, plans and launches."""
