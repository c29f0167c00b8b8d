"""Capsules: one task with all that is needed to run it again. Nothing of it is imported before a task fails."""
