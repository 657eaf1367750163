"""MDPs made of MDPs."""
