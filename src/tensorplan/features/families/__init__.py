"""The families of features, one file per family."""
