"""Random MDPs whose features realize v* and q*, exactly or up to a given error."""
