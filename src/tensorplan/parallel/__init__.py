"""Child processes, Ray clusters, and simulators replicated on them."""
