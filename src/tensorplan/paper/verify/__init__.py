"""What is claimed of the lower bounds' MDPs, checked exactly."""
