"""Output for people: terminal tables, figures, and self-contained HTML pages."""
