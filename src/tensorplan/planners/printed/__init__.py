"""TensorPlan as printed, with the paper's constants."""
