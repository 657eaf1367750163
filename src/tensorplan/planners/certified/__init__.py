"""The certified mode of TensorPlan, for random problems."""
