"""What the operating system offers and limits: descriptors, processes, orphans, timers, the logs of our programs."""
