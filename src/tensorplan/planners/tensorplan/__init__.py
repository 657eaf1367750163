"""TensorPlan, exact where nothing is random and certified where something is."""
