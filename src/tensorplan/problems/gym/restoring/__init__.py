"""Ways back to a state of a Gymnasium environment, and the tests that they are faithful."""
