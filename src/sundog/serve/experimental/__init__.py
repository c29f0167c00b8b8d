"""Request routers that deployments may choose: round robin, consistent hashing, a common queue of places."""
