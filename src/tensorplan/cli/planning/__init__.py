"""The commands for one problem."""
