"""Random MDPs whose features realize v* and q*, or miss by a stated amount."""
