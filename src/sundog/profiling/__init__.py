"""Profiles of tasks, actors and drivers: sampled, by line, by memory. Imported when the first one is asked for."""
