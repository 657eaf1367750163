"""What planners ask, what they have seen, and what that shows whatever the features."""
