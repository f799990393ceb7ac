"""The method: features, kernels, nuclear norms, the objective and its solvers."""
