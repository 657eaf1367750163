"""Planning with bounds in hindsight."""
