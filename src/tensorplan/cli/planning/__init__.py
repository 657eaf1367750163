"""The commands about one problem."""
