"""Sockets: pairs, packets, descriptors that travel with them, and the node's loop."""
