"""Our problems and planners inside what people use."""
