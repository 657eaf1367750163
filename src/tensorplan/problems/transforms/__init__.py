"""MDPs derived from other MDPs."""
