"""The queries of a planner, the experience they give, and what that shows without features."""
