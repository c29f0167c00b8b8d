"""The worker program and the zygote that forks it. Launched, never imported by the rest."""
