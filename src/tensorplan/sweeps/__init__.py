"""Many runs, kept in a store that survives."""
