"""Value functions fitted for bounds in hindsight: at sampled states, on features, or for the smallest bound."""
