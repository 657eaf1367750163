"""The families of features, one file each."""
