"""TensorPlan: exact mode for deterministic problems, certified mode for random ones."""
